// Runs AOSP's real android.os.Trace of one API level on a JVM with the agent: the trace contains everything that it
// writes, by thread. One process for each level: tests/android/run jvm.
@file:JvmName("TraceOnJvm")

import android.os.Build
import android.os.Trace
import dev.tracetee.CaptureOptions
import dev.tracetee.Markers
import dev.tracetee.Outcome
import dev.tracetee.RedactionRule
import dev.tracetee.Tracetee
import dev.tracetee.coroutines.CoroutineTracing
import dev.tracetee.coroutines.launch
import dev.tracetee.coroutines.traceAsync
import dev.tracetee.coroutines.traceCoroutine
import dev.tracetee.coroutines.tracing
import dev.tracetee.trace
import java.io.ByteArrayOutputStream
import java.io.File
import java.util.concurrent.Executors
import java.util.concurrent.FutureTask
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger
import kotlin.coroutines.EmptyCoroutineContext
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield
import org.json.JSONObject

const val THREADS = 4
const val ROUNDS = 500

fun main(arguments: Array<String>) {
    val (api, natives, out) = arguments
    System.load(natives)
    check(Build.VERSION.SDK_INT == api.toInt()) { "this is API ${Build.VERSION.SDK_INT}" }
    // Java caches the tags, up to 29: the capture has to refresh what was read before it.
    trace("before the capture") { }
    val cachedBefore = cachedTags()
    coroutinesByConfiguration(File(out, "coroutines-$api"))

    val options = CaptureOptions.Builder().setCategories(CaptureOptions.Category.APP, CaptureOptions.Category.VIEW)
    expect(Tracetee.startCapture(options.setPassOn(CaptureOptions.PassOn.NEVER).build()))
    check(Tracetee.isRecording)
    check(Tracetee.version == arguments[3]) { "the library is of version ${Tracetee.version}" }
    if (Build.VERSION.SDK_INT <= 29) check(cachedTags() == 0x1009L) { "cached: ${cachedTags()}" }
    val threads = List(THREADS) { n ->
        Thread({ if (n % 2 == 0) FromJava.work(ROUNDS) else fromKotlin(n) }, "worker-$n")
    }
    threads.forEach { it.start() }
    threads.forEach { it.join() }
    coroutines()
    expect(Tracetee.stopCapture())
    check(cachedTags() == cachedBefore) { "cached: ${cachedTags()}, before $cachedBefore" }
    trace("after the capture") { }
    val file = File(out, "api-$api.ftrace")
    expect(Tracetee.dump(file))
    val health = Tracetee.health()!!
    check(!health.isRecording && health.headline == null && JSONObject(health.json).getJSONObject("health").getInt("pid") > 0)
    judge(file.readLines())

    // Errors are reported, and nothing is thrown.
    val wrong = Tracetee.startCapture(CaptureOptions.Builder().setBlockKb(12).build())
    check(!wrong.isDone && "recorder.block_kb" in wrong.error!!) { wrong }
    for (failed in listOf(Tracetee.stopCapture(), Tracetee.dump(File("/nowhere/x")), Tracetee.trigger("x"))) check(!failed.isDone)
    everyOption(File(out, "options-$api"))
    events(File(out, "events-$api.ftrace"))
    listening(File(out, "heard-$api.ftrace"))
    whileCapturesBeginAndEnd()
    byConfiguration(File(out, "installed-$api"), cachedBefore)
    check(FromJava.told(Outcome.DONE) == "done" && FromJava.told(Outcome.failed("why")) == "why")
    FromJava.config().run { check(collectorUrl == "https://traces.example.com" && device["soc"] == "x" && !scheduleUploads) }
    println("API $api: ${file.length()} bytes")
}

/** Starts captures with every option at every value, and checks their effect where the trace or the report shows it. */
private fun everyOption(directory: File) {
    // None of it depends on the platform's level.
    if (Build.VERSION.SDK_INT != 35) return
    directory.deleteRecursively()
    directory.mkdirs()
    // The agent names the categories that it knows.
    val native = Class.forName("dev.tracetee.Native").getMethod("start", String::class.java)
    val known = (native.invoke(null, """{"tags": ["nonsense"]}""") as String).substringAfter("known are all, ").split(", ")
    val ours = CaptureOptions.Category.entries.map { it.name.lowercase() }
    check(known.map { it.trim() } == ours) { "the agent's categories are $known" }

    fun captured(file: File, options: CaptureOptions.Builder, name: String): List<String> {
        expect(Tracetee.startCapture(options.build()))
        check(Tracetee.health()!!.isRecording == (options.build().mode != CaptureOptions.Mode.SYSTRACE))
        trace(name) { Thread.sleep(5) }
        Markers.instant("instant")
        Thread({ trace("DrawFrame on another thread") {} }, "RenderThread").apply { start(); join() }
        expect(Tracetee.stopCapture())
        if (options.build().mode in listOf(CaptureOptions.Mode.STARTUP, CaptureOptions.Mode.RING)) expect(Tracetee.dump(file))
        return if (file.exists()) file.readLines().filter { "tracing_mark_write" in it } else emptyList()
    }
    val all = CaptureOptions.Builder().setCategories(CaptureOptions.Category.entries).setDurationMs(60_000).setFastPath(true)
        .setBlockKb(32).setCapacityKb(1024).setDrainCpuPercent(50)
    for (clock in CaptureOptions.Clock.entries) {
        for (passOn in CaptureOptions.PassOn.entries) {
            for (mode in CaptureOptions.Mode.entries) {
                val file = File(directory, "$clock-$passOn-$mode.ftrace")
                all.setOutput(file.takeIf { mode == CaptureOptions.Mode.ENDLESS })
                val lines = captured(file, all.setClock(clock).setPassOn(passOn).setMode(mode), "section")
                check(lines.any { "section" in it } == (mode != CaptureOptions.Mode.SYSTRACE)) { "$file: $lines" }
            }
        }
    }
    for (counts in listOf(false, true)) {
        val file = File(directory, "counters-$counts.ftrace")
        val lines = captured(file, CaptureOptions.Builder().setFrameCounters(counts), "section")
        check(lines.any { "|tracetee: render running ns|" in it } == counts) { "$file: $lines" }
    }
    val rules = listOf(
        RedactionRule("alice", RedactionRule.Action.Replace("<user>"), "keep alice"),
        RedactionRule("secret", RedactionRule.Action.Drop),
        RedactionRule("[0-9]+", RedactionRule.Action.Hash),
    )
    val strict = CaptureOptions.Builder().setCategories(null).setRedaction(rules).setMainThreadOnly(true)
        .setPrecision(CaptureOptions.Precision.NS)
    val file = File(directory, "text.ftrace")
    expect(Tracetee.startCapture(strict.build()))
    for (name in listOf("login alice", "keep alice", "secret", "call 123")) trace(name) { Thread.sleep(2) }
    expect(Tracetee.stopCapture())
    expect(Tracetee.dump(file))
    val text = file.readText()
    // The main thread of this process is the launcher's, not the one that runs main().
    check("login" !in text && "secret" !in text) { text }
    val inner = captured(file, strict.setMainThreadOnly(false), "login alice, keep alice, 123").joinToString("\n")
    check(Regex("""\d\.\d{9}: tracing_mark_write: B\|\d+\|login alice, keep alice, #[0-9a-f]{8}""") in inner) { inner }
    check("I|" in inner && "secret" !in inner) { inner }
    val shortest = strict.setMinSliceUs(CaptureOptions.MinSliceUs(0, 0, 4_000_000)).setRecoverTo(directory)
    val long = captured(file, shortest.setDirectory(File(directory, "recorder").apply { mkdirs() }), "short")
    check(long.none { "short" in it }) { file.readText() }
}

/** Hears a streamed capture while it is recorded; a listener that throws hears no more of it. */
private fun listening(file: File) {
    val options = CaptureOptions.Builder().setMode(CaptureOptions.Mode.ENDLESS).setOutput(file).setDrainCpuPercent(100).build()
    for (throws in listOf(false, true)) {
        val heard = ByteArrayOutputStream()
        val blocks = AtomicInteger()
        val outcome = FutureTask {
            Tracetee.listen { text, lost ->
                trace("by the listener") { heard.write(text) }
                check(lost == 0L && text.size <= 256 * 1024)
                blocks.incrementAndGet()
                check(!throws) { "enough" }
            }.error
        }
        val thread = Thread(outcome, "listener").apply { start() }
        await("the listener") { thread.stackTrace.firstOrNull()?.run { methodName == "listen" && isNativeMethod } ?: false }
        expect(Tracetee.startCapture(options))
        trace("heard") { Thread.sleep(1) }
        await("a block while it is recorded") { blocks.get() > 0 }
        if (!throws) Tracetee.listen { _, _ -> }.run { check("another thread listens" in error.orEmpty()) { this } }
        trace("heard later") { }
        expect(Tracetee.stopCapture())
        val why = outcome.get()
        val text = file.readText()
        check("|heard later\n" in text && "by the listener" !in text) { text }
        if (throws) {
            check(why != null && "enough" in why && blocks.get() == 1 && text.startsWith(heard.toString())) { "$why, ${blocks.get()}" }
        } else {
            check(why == null && heard.size() > 0 && text.endsWith(heard.toString())) { "$why: heard ${heard.size()} of ${file.length()} bytes" }
        }
    }
    // Nothing is recorded, and nobody listens.
    Tracetee.stopListening()
    val waiting = FutureTask { Tracetee.listen { _, _ -> } }
    Thread(waiting).start()
    await("the end of the listening") {
        Tracetee.stopListening()
        waiting.isDone
    }
    expect(waiting.get())
}

/** Checks that Java's copy of the tags is current whenever another thread sees that a capture is recording. */
private fun whileCapturesBeginAndEnd() {
    if (Build.VERSION.SDK_INT > 29) return
    // Odd while a capture begins, runs or ends.
    val round = AtomicInteger()
    val isOver = AtomicBoolean()
    val (seen, wrong) = List(2) { AtomicInteger() }
    val asking = Thread {
        while (!isOver.get()) {
            val before = round.get()
            val wasRecording = Tracetee.isRecording
            val cached = cachedTags()!!
            if (!wasRecording || !Tracetee.isRecording || round.get() != before) continue
            seen.incrementAndGet()
            if (cached and 0x8 == 0L) wrong.incrementAndGet()
        }
    }
    asking.start()
    val options = CaptureOptions.Builder().setCategories(CaptureOptions.Category.VIEW).setCapacityKb(256).build()
    repeat(300) {
        round.incrementAndGet()
        expect(Tracetee.startCapture(options))
        expect(Tracetee.stopCapture())
        round.incrementAndGet()
    }
    isOver.set(true)
    asking.join()
    check(seen.get() > 0 && wrong.get() == 0) { "recording ${seen.get()} times, ${wrong.get()} of them without tags" }
}

/** Opens and closes a window by configuration, on the agent's own thread, which has to update Java's tags. */
private fun byConfiguration(directory: File, cachedBefore: Long?) {
    directory.deleteRecursively()
    directory.mkdirs()
    val config = File(directory, "remote.json")
    config.writeText(
        """{"schema": 1, "seq": 1, "windows": [{"id": "hand", "opens": "manual", "tags": ["app"], "max_s": 60}]}""",
    )
    // As Tracetee.install does with a Context.
    val settings = JSONObject().put("directory", File(directory, "agent").path).put("config_file", config.path)
    val native = Class.forName("dev.tracetee.Native")
    val error = native.getMethod("install", String::class.java).invoke(null, settings.toString())
    check(error == null) { "$error" }
    await("a window") { Tracetee.openWindow("hand").isDone && Tracetee.isRecording }
    if (Build.VERSION.SDK_INT <= 29) check(cachedTags() == 0x1001L) { "cached: ${cachedTags()}" }
    trace("in the window") { Thread.sleep(1) }
    expect(Tracetee.closeWindow("hand"))
    await("its end") { !Tracetee.isRecording }
    val ready = File(directory, "agent/spool/ready")
    await("the capture") { ready.list().orEmpty().size == 1 }
    await("the tags of before") { cachedTags() == cachedBefore }
    check(native.getMethod("uninstall").invoke(null) == null)
}

/** Switches coroutine tracing by the configuration: each change counts from the next start on. */
private fun coroutinesByConfiguration(directory: File) {
    directory.deleteRecursively()
    directory.mkdirs()
    val config = File(directory, "remote.json")
    var seq = 0
    fun configure(coroutines: String) {
        val json = """{"schema": 1, "seq": ${++seq}, "coroutines": $coroutines}"""
        File(directory, "new.json").apply { writeText(json) }.renameTo(config)
    }
    fun control() = JSONObject(Tracetee.health()!!.json).getJSONObject("control")
    fun inForce() = control().optJSONObject("config")?.getInt("seq") == seq
    val settings = JSONObject().put("directory", File(directory, "agent").path).put("config_file", config.path)
    val native = Class.forName("dev.tracetee.Native")
    check(native.getMethod("load").invoke(native.getField("INSTANCE").get(null)) == true)
    fun restart(isOn: Boolean, said: String?) {
        native.getMethod("uninstall").invoke(null)
        val error = native.getMethod("install", String::class.java).invoke(null, settings.put("api", 30).toString())
        check(error == null) { "$error" }
        await("the start") { inForce() }
        await("the switch") { CoroutineTracing.isEnabled == isOn && Tracetee.isCoroutineTracingOn == isOn }
        check((tracing() != EmptyCoroutineContext) == isOn)
        check(control().opt("coroutines") == said) { control() }
    }
    configure("{}")
    restart(false, null)
    configure("""{"on": true}""")
    await("the configuration") { inForce() }
    check(!CoroutineTracing.isEnabled && control().getString("coroutines") == "from the app's next start on") { control() }
    restart(true, "on")
    configure("""{"on": false}""")
    await("the configuration") { inForce() }
    check(CoroutineTracing.isEnabled) { "it counts from the next start on" }
    restart(false, null)
    configure("""{"on": true, "match": {"api": [31, 40]}}""")
    restart(false, "API level 30 is not from 31 to 40")
    configure("""{"on": true, "sampling": {"percent": 0}}""")
    await("the configuration") { inForce() }
    restart(false, control().getString("coroutines"))
    check("not sampled: bucket" in control().getString("coroutines")) { control() }
    // The app's own word counts more.
    configure("""{"on": true}""")
    restart(true, "on")
    CoroutineTracing.isEnabled = false
    check(Tracetee.isCoroutineTracingOn && tracing() == EmptyCoroutineContext)
    check(native.getMethod("uninstall").invoke(null) == null)
}

private fun await(what: String, isThere: () -> Boolean) {
    val end = System.nanoTime() + 20_000_000_000
    while (!isThere()) {
        check(System.nanoTime() < end) { "$what did not come: ${Tracetee.health()}" }
        Thread.sleep(10)
    }
}

private fun fromKotlin(n: Int) {
    for (i in 0 until ROUNDS) {
        trace("kotlin $i") {
            trace({ "lazy ${'x'.toString().repeat(200)}" }) { Markers.counter("kotlin counter", i + 5_000_000_000L) }
        }
        Markers.beginAsync("async", n * ROUNDS + i)
        Markers.endAsync("async", n * ROUNDS + i)
        Markers.beginTrack("track", "on it ü€😀", n * ROUNDS + i)
        Markers.endTrack("track", "on it ü€😀", n * ROUNDS + i)
        Markers.instant("now $i")
    }
    try {
        trace("throws") { throw IllegalStateException() }
    } catch (_: IllegalStateException) {
        Trace.beginSection("caught")
        Trace.endSection()
    }
}

private fun coroutines() {
    CoroutineTracing.isEnabled = true
    val pools = listOf("first", "second").map { name -> Executors.newSingleThreadExecutor { Thread(it, name) } }
    val (first, second) = pools.map { it.asCoroutineDispatcher() }
    runBlocking(first + tracing()) {
        launch("load") {
            traceAsync("request") {
                traceCoroutine("parse") {
                    yield()
                    // Returns when the first thread has left the coroutine, so that its sections there have ended.
                    withContext(second) { trace("elsewhere") { pools[0].submit { }.get() } }
                }
            }
        }
    }
    pools.forEach { it.shutdown() }
    // A thread ends the sections that were open on it after the coroutine has gone on elsewhere.
    check(pools.all { it.awaitTermination(1, TimeUnit.MINUTES) })
}

/** Reads `Trace.sEnabledTags`; null if this level has none. */
private fun cachedTags(): Long? = cachedField?.getLong(null)

private val cachedField = try {
    Trace::class.java.getDeclaredField("sEnabledTags").apply { isAccessible = true }
} catch (_: NoSuchFieldException) {
    null
}

internal fun expect(outcome: Outcome) = check(outcome.isDone) { "$outcome" }

private val LINE = Regex("""^\s*(.+)-(\d+)\s+\(\s*(\d+)\)\s\[\d+] \S{4,5}\s+\d+\.\d{6}: tracing_mark_write: (.*)$""")

/** Checks every record of each thread, in order. */
private fun judge(lines: List<String>) {
    val pid = ProcessHandle.current().pid()
    val byThread = HashMap<String, MutableList<String>>()
    for (line in lines) {
        val (name, _, tgid, payload) = LINE.find(line)?.destructured ?: continue
        check(tgid.toLong() == pid)
        byThread.getOrPut(name.trim()) { ArrayList() }.add(payload.replaceFirst("|$pid", ""))
    }
    for (n in 0 until THREADS) {
        val expected = ArrayList<String>()
        for (i in 0 until ROUNDS) {
            if (n % 2 == 0) {
                expected += listOf("B|java $i", "B|inner with all", "C|java counter|$i", "E", "E")
            } else {
                val cookie = n * ROUNDS + i
                // Up to 28 the platform has no public counter, and the agent writes it as it is.
                expected += listOf("B|kotlin $i", "B|lazy " + "x".repeat(122), "C|kotlin counter|${i + 5_000_000_000L}", "E", "E")
                expected += listOf("S|async|$cookie", "F|async|$cookie")
                expected += listOf("G|track|on it ü€😀|$cookie", "H|track|$cookie", "I|now $i")
            }
        }
        if (n % 2 == 1) expected += listOf("B|throws", "E", "B|caught", "E")
        same("worker-$n", expected, byThread["worker-$n"])
    }
    val (first, second) = listOf(byThread.getValue("first"), byThread.getValue("second"))
    val cookie = first.first { it.startsWith("G|") }.substringAfterLast('|')
    same(
        "first",
        listOf("B|load", "G|AsyncTraces|request|$cookie", "B|parse", "E", "E", "B|load", "B|parse", "E", "E") +
            listOf("B|load", "B|parse", "E", "H|AsyncTraces|$cookie", "E"),
        first,
    )
    same("second", listOf("B|load", "B|parse", "B|elsewhere", "E", "E", "E"), second)
}

private fun same(thread: String, expected: List<String>, seen: List<String>?) {
    val at = expected.indices.firstOrNull { expected[it] != seen?.getOrNull(it) }
    check(at == null && expected.size == seen?.size) {
        "$thread, record $at: expected ${expected.getOrNull(at ?: -1)}, ${expected.size} in all; " +
            "seen ${seen?.drop(at ?: 0)?.take(3)}, ${seen?.size}"
    }
}
