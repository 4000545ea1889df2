// Calls every function of the library's API that needs no device. tests/android/consumers compiles it against the
// library and against the no-op one, and runs each with the classes of the other.

import dev.tracetee.CaptureOptions
import dev.tracetee.Event
import dev.tracetee.HealthReport
import dev.tracetee.HttpSender
import dev.tracetee.Markers
import dev.tracetee.NotSentException
import dev.tracetee.Outcome
import dev.tracetee.RedactionRule
import dev.tracetee.Section
import dev.tracetee.SenderResponse
import dev.tracetee.Tracetee
import dev.tracetee.TraceteeConfig
import dev.tracetee.TraceteeInitializer
import dev.tracetee.UploadResult
import dev.tracetee.coroutines.CoroutineTracing
import dev.tracetee.coroutines.traceCoroutine
import dev.tracetee.coroutines.tracing
import dev.tracetee.trace
import java.io.File
import java.io.IOException
import kotlinx.coroutines.delay
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext

fun main(arguments: Array<String>) {
    val variant = arguments[0]
    // The framework's native methods, which the library calls and the no-op one does not.
    arguments.getOrNull(1)?.let(System::load)
    val isNoop = variant == "tracetee-noop"
    val config = TraceteeConfig.Builder().setCollectorUrl("https://traces.example.com").setToken("token").build()
    check(config.collectorUrl == "https://traces.example.com" && config.token == "token")
    check(config.sender === HttpSender)
    check(!Tracetee.isInstalled && !Tracetee.isRecording)

    // Without a library to load, the library fails as the no-op one does; nothing throws.
    val failing = listOf<() -> Outcome>(
        Tracetee::uninstall, Tracetee::stopCapture, { Tracetee.startCapture() }, { Tracetee.startCapture(options()) },
        { Tracetee.trigger("x") }, { Tracetee.openWindow("x") }, { Tracetee.closeWindow("x") },
        { Tracetee.setConsent(true) }, { Tracetee.offerConfig(byteArrayOf(), null) }, { Tracetee.dump(File("x")) },
    )
    for (call in failing) {
        val outcome = call()
        check(!outcome.isDone && outcome.error != null) { "something works without an agent" }
        check(isNoop == "$outcome".contains("tracetee-noop")) { outcome }
    }
    val health: HealthReport? = Tracetee.health()
    check(health?.headline == null && health?.json == null && health?.isRecording != true && Tracetee.version == null)
    Tracetee.setScreen("x")

    check(trace("section") { 1 } == 1)
    check(trace({ error("the name is computed only during a capture") }) { 2 } == 2)
    Section.begin("x").use {}
    // Instrumented methods call it; sources cannot.
    val methods = Class.forName("dev.tracetee.MethodTrace")
    methods.getMethod("begin", String::class.java).invoke(null, "1")
    methods.getMethod("end").invoke(null)
    Markers.beginAsync("x", 1)
    Markers.endAsync("x", 1)
    Markers.beginTrack("t", "x", 1)
    Markers.endTrack("t", "x", 1)
    Markers.counter("x", 1)
    Markers.instant("x")
    val event = Event.get().category("c").arg("k", "v").arg("n", 1L).arg("r", 0.5).arg("b", true)
    event.flowBegin(1).flowStep(1).flowEnd(1).threadTime().beginSection("x")
    Event.get().endSection()
    Event.get().beginAsync("x", 1)
    Event.get().endAsync("x", 1)
    Event.get().beginTrack("t", "x", 1)
    Event.get().endTrack("t", 1)
    Event.get().instant("x")
    Event.get().instant("t", "x")
    Event.get().complete("x", 1, 2)
    Event.get().counter("x", 0.5)
    Event.get().counter("x", "s", 0.5)
    val thrown = runCatching { trace("section") { throw IOException("x") } }.exceptionOrNull()
    check(thrown is IOException && NotSentException(thrown).cause === thrown)
    check(SenderResponse(200, emptyMap(), byteArrayOf(1)).body.size == 1)
    check(TraceteeInitializer().dependencies().isEmpty())

    CoroutineTracing.isEnabled = true
    val sum = runBlocking {
        withContext(tracing()) {
            traceCoroutine("outer") {
                delay(1)
                traceCoroutine("inner") { 3 }
            }
        }
    }
    check(sum == 3 && CoroutineTracing.misuses == 0L)
    println("$variant: every call")
}

/** Sets every option. */
private fun options(): CaptureOptions {
    val rules = listOf(
        RedactionRule("a", RedactionRule.Action.Drop),
        RedactionRule("b", RedactionRule.Action.Hash, "c"),
        RedactionRule("d", RedactionRule.Action.Replace("e")),
    )
    val options = CaptureOptions.Builder()
        .setCategories(CaptureOptions.Category.VIEW, CaptureOptions.Category.APP)
        .setPassOn(CaptureOptions.PassOn.NEVER)
        .setMode(CaptureOptions.Mode.ENDLESS)
        .setOutput(File("x"))
        .setDurationMs(1000)
        .setFastPath(true)
        .setCapacityKb(4096)
        .setBlockKb(16)
        .setDirectory(File("d"))
        .setRecoverTo(File("r"))
        .setClock(CaptureOptions.Clock.BOOT)
        .setDrainCpuPercent(10)
        .setPrecision(CaptureOptions.Precision.NS)
        .setMinSliceUs(CaptureOptions.MinSliceUs(1, 2, 3))
        .setMainThreadOnly(true)
        .setFrameCounters(true)
        .setRedaction(rules)
        .build()
    check(options.categories == setOf(CaptureOptions.Category.VIEW, CaptureOptions.Category.APP))
    check(options.mode == CaptureOptions.Mode.ENDLESS && options.output == File("x") && options.minSliceUs.other == 3L)
    return options
}

/** Tells what an upload has come to; an app needs no other branch. */
fun told(result: UploadResult): String = when (result) {
    is UploadResult.Done -> "${result.delivered.size} delivered, ${result.waiting} wait: ${result.held}; again in ${result.againMs} ms"
    is UploadResult.Failed -> result.reason
}
