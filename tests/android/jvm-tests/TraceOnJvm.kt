// Runs AOSP's real android.os.Trace of one API level on a JVM with the agent: the trace contains everything that it
// writes, by thread. One process for each level: tests/android/run jvm.
@file:JvmName("TraceOnJvm")

import android.os.Build
import android.os.Trace
import dev.tracetee.Markers
import dev.tracetee.Tracetee
import dev.tracetee.coroutines.CoroutineTracing
import dev.tracetee.coroutines.launch
import dev.tracetee.coroutines.traceAsync
import dev.tracetee.coroutines.traceCoroutine
import dev.tracetee.coroutines.tracing
import dev.tracetee.trace
import java.io.File
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger
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

    expect(Tracetee.startCapture("""{"tags": ["app", "view"], "pass_on": "never"}"""))
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
    check(JSONObject(Tracetee.health()!!).getJSONObject("health").getInt("pid") > 0)
    judge(file.readLines())

    // Errors are reported, and nothing is thrown.
    check(!Tracetee.startCapture("""{"tags": ["nonsense"]}""") && "nonsense" in Tracetee.lastError!!)
    check(!Tracetee.stopCapture() && !Tracetee.dump(File("/nowhere/x")) && !Tracetee.trigger("x"))
    whileCapturesBeginAndEnd()
    byConfiguration(File(out, "installed-$api"), cachedBefore)
    FromJava.config().run { check(collectorUrl == "https://traces.example.com" && device["soc"] == "x" && !scheduleUploads) }
    println("API $api: ${file.length()} bytes")
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
    repeat(300) {
        round.incrementAndGet()
        expect(Tracetee.startCapture("""{"tags": ["view"], "recorder": {"capacity_kb": 256}}"""))
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
    await("a window") { Tracetee.openWindow("hand") && Tracetee.isRecording }
    if (Build.VERSION.SDK_INT <= 29) check(cachedTags() == 0x1001L) { "cached: ${cachedTags()}" }
    trace("in the window") { Thread.sleep(1) }
    check(Tracetee.closeWindow("hand"))
    await("its end") { !Tracetee.isRecording }
    val ready = File(directory, "agent/spool/ready")
    await("the capture") { ready.list().orEmpty().size == 1 }
    await("the tags of before") { cachedTags() == cachedBefore }
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

private fun expect(done: Boolean) = check(done) { Tracetee.lastError!! }

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
