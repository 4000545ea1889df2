// Calls every function of the library's API that needs no device. tests/android/consumers compiles it against the
// library and against the no-op one, and runs each with the classes of the other.

import dev.tracetee.HttpSender
import dev.tracetee.Markers
import dev.tracetee.MethodTrace
import dev.tracetee.NotSentException
import dev.tracetee.Section
import dev.tracetee.SenderResponse
import dev.tracetee.Tracetee
import dev.tracetee.TraceteeConfig
import dev.tracetee.TraceteeInitializer
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
    val failing = listOf<() -> Boolean>(
        Tracetee::uninstall, Tracetee::stopCapture, { Tracetee.startCapture() }, { Tracetee.startCapture("{}") },
        { Tracetee.trigger("x") }, { Tracetee.openWindow("x") }, { Tracetee.closeWindow("x") },
        { Tracetee.setConsent(true) }, { Tracetee.offerConfig(byteArrayOf(), null) }, { Tracetee.dump(File("x")) },
    )
    check(failing.none { it() }) { "something works without an agent" }
    check(Tracetee.lastError != null)
    check(isNoop == Tracetee.lastError.orEmpty().contains("tracetee-noop"))
    check(Tracetee.health() == null && Tracetee.version == null)
    Tracetee.setScreen("x")

    check(trace("section") { 1 } == 1)
    check(trace({ error("the name is computed only during a capture") }) { 2 } == 2)
    Section.begin("x").use {}
    MethodTrace.begin("1")
    MethodTrace.end()
    Markers.beginAsync("x", 1)
    Markers.endAsync("x", 1)
    Markers.beginTrack("t", "x", 1)
    Markers.endTrack("t", "x", 1)
    Markers.counter("x", 1)
    Markers.instant("x")
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
