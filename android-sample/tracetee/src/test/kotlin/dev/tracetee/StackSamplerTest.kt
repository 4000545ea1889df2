package dev.tracetee

import android.os.Handler
import android.os.Looper
import android.view.Choreographer
import com.example.planted.Work
import java.io.File
import java.lang.management.ManagementFactory
import java.util.Random
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.LockSupport
import org.json.JSONObject
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config
import org.robolectric.annotation.LooperMode
import org.robolectric.shadows.ShadowSystemClock

/**
 * The sampler with AOSP's looper and choreographer on a main thread of their own, the real agent, and the program's report of
 * the capture: planted functions get their time. Needs what [AppTest] does.
 */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [34], manifest = Config.NONE)
@LooperMode(LooperMode.Mode.INSTRUMENTATION_TEST)
class StackSamplerTest {
    private val program = System.getenv("TRACETEE")
    private val directory = File.createTempFile("stacks", "").apply { delete(); mkdirs() }
    private val main = Handler(Looper.getMainLooper())

    @After
    fun stop() {
        if (Native.isLoaded) Native.uninstall()
        directory.deleteRecursively()
    }

    @Test
    fun plantedFunctionsGetTheirTimeAndNoOthersAny() {
        assumeTrue("skipped: TRACETEE is not set", program != null)
        val tid = onMain { File("/proc/thread-self").canonicalFile.name.toInt() }
        val truth = HashMap<String, Long>()
        val perFrame = ArrayList<Map<String, Long>>()
        val text = captured(CONFIG, tid) {
            for (seed in 0 until SEEDS) {
                val random = Random(seed.toLong())
                repeat(FRAMES) {
                    val parts = List(3) { Work.all[random.nextInt(Work.all.size)] to (50 + random.nextInt(100)) * 1_000_000L }
                    val took = HashMap<String, Long>()
                    frame(perFrame.size) {
                        for ((function, ns) in parts) {
                            val begin = System.nanoTime()
                            function.second(ns)
                            took.merge(function.first, System.nanoTime() - begin, Long::plus)
                        }
                    }
                    took.forEach { (name, ns) -> truth.merge(name, ns, Long::plus) }
                    perFrame += took
                    Thread.sleep(5L + random.nextInt(40))
                }
            }
        }
        val report = report(text, tid)
        val seen = HashMap<String, Long>()
        var open = 0L
        val causes = report.getJSONArray("causes")
        for (place in 0 until causes.length()) {
            val row = causes.getJSONObject(place)
            val ns = row.getLong("self_ns")
            when (row.getString("cause")) {
                "code" -> seen.merge(row.getString("key").substringBeforeLast('.'), ns, Long::plus)
                "unexplained", "section" -> if (row.getString("key") != "(no render thread: 5 ms assumed)") open += ns
            }
        }
        println("planted $truth\nseen    $seen\nopen    $open of ${truth.values.sum()}")
        // Their callers, one a class that the JVM makes of a lambda, and the test itself have run, too.
        val planted = seen.keys.filter { it.startsWith("com.example.planted.") && it.substringBefore('$') != "com.example.planted.Work" }
        assertEquals("a function that did not run", truth.keys, planted.toSet())
        for ((name, ns) in truth) println("$name: off by %.1f %%".format(100.0 * (seen[name]!! - ns) / ns))
        // Over all seeds. Time that no sample covers, where the sampler got no processor, is nobody's.
        for ((name, ns) in truth) {
            assertTrue("$name: $ns, seen ${seen[name]}", seen[name]!! - ns <= ns / 20 && ns - seen[name]!! <= ns / 20 + open / truth.size)
        }
        assertTrue("$open of ${truth.values.sum()} are unexplained still", open * 5 <= truth.values.sum())
        // Which function a frame is named for: one that took as long as any, as far as the frame's samples can tell.
        val samples = samples(text)
        var named = 0
        val frames = report.getJSONArray("explanations")
        assertTrue("${frames.length()}", frames.length() >= perFrame.size)
        for (place in 0 until minOf(frames.length(), perFrame.size)) {
            val frame = frames.getJSONObject(place)
            val key = frame.getJSONArray("causes").getJSONObject(0).getString("key")
            val took = perFrame[place]
            val inside = samples.filter { (atNs, _) -> atNs in frame.getLong("start_ns")..frame.getLong("end_ns") }
            // Before the first one the sampler waits for two periods.
            val apartNs = inside.withIndex().maxOfOrNull { (number, one) -> if (number == 0) one.second - 34_000_000 else one.second } ?: 0
            if ((took[key.substringBeforeLast('.')] ?: 0) + maxOf(25_000_000, apartNs) >= took.values.max()) named++
        }
        println("named in $named of ${perFrame.size} frames")
        assertTrue("$named of ${perFrame.size}", named * 100 >= perFrame.size * 95)
    }

    /** The samples of a text: when each was written, and for how long it stands, ns. */
    private fun samples(text: String): List<Pair<Long, Long>> {
        val written = Regex("""#@ .*"for_us":(\d+).*\n.* (\d+)\.(\d{6}): .*\|tracetee: stack\n""")
        return written.findAll(text).map { found ->
            val (forUs, seconds, micros) = found.destructured
            seconds.toLong() * 1_000_000_000 + micros.toLong() * 1000 to forUs.toLong() * 1000
        }.toList()
    }

    @Test
    fun withoutTheOptionNobodyIsAsked() {
        assumeTrue("skipped: no libtracetee.so", Native.load())
        val tid = onMain { File("/proc/thread-self").canonicalFile.name.toInt() }
        for (stacks in listOf("", """, "stacks": {"percent": 0}""")) {
            val text = captured(CONFIG.replace(STACKS, stacks), tid) {
                assertEquals(0, Native.stacks())
                frame(1) { Work.all[0].second(150_000_000) }
            }
            assertTrue(text, "Choreographer#doFrame 1" in text && "tracetee: stack" !in text)
        }
    }

    /** Stacks that grow and shrink at random, as the program reads them again. */
    @Test
    fun stacksAreReadAsTheyWereWritten() {
        assumeTrue("skipped: TRACETEE is not set", program != null)
        val tid = onMain { File("/proc/thread-self").canonicalFile.name.toInt() }
        val random = Random(7)
        val written = ArrayList<List<String>>()
        val text = captured(CONFIG.replace(STACKS, ""), tid) {
            val writer = StackWriter(tid)
            writer.beginRow()
            var stack = emptyList<StackTraceElement>()
            repeat(2_000) { turn ->
                if (random.nextInt(20) == 0) writer.beginRow()
                stack = stack.drop(random.nextInt(4).coerceAtMost(stack.size))
                if (random.nextInt(50) == 0) stack = stack.dropLast(1)
                repeat(random.nextInt(if (turn % 500 == 0) 120 else 5)) {
                    val line = random.nextInt(3)
                    stack = listOf(StackTraceElement("com.example.C${random.nextInt(40)}", "run", "C.kt", line)) + stack
                }
                val isFrame = random.nextInt(10) == 0
                val last = if (isFrame) listOf(StackTraceElement("android.view.Choreographer", "doFrame", "C.java", 1)) else emptyList()
                val frames = (stack + last).toTypedArray()
                assertEquals(isFrame, writer.write(frames, 0, 1000))
                written += frames.take(80).map { "${it.className}.${it.methodName}" }
            }
        }
        val names = HashMap<String, String>()
        var details = JSONObject()
        val read = ArrayList<List<String>>()
        for (line in text.lineSequence()) {
            when {
                line.startsWith("#@ ") -> details = JSONObject(line.drop(3)).optJSONObject("args") ?: JSONObject()
                line.endsWith("|tracetee: stack names") -> details.keys().forEach { names[it] = details.getString(it) }
                line.endsWith("|tracetee: stack") -> read += details.getString("stack").split(' ').filter { it != "" }.map { names[it]!! }
            }
        }
        assertEquals(written.size, read.size)
        for ((place, frames) in written.withIndex()) assertEquals("sample $place", frames, read[place])
    }

    /** By hand, for docs/BENCHMARKS.md: `JAVA_OPTIONS=-Dtracetee.cost=1`. */
    @Test
    fun costs() {
        assumeTrue("skipped: by hand", System.getProperty("tracetee.cost") != null && program != null)
        val tid = onMain { File("/proc/thread-self").canonicalFile.name.toInt() }
        val clock = ManagementFactory.getThreadMXBean()
        fun percentOf(what: String, work: () -> Unit) {
            captured(CONFIG, tid) {
                val sampler = Thread.getAllStackTraces().keys.single { it.name == "tracetee-stacks" }
                Thread.sleep(3000)
                val (cpu, wall) = clock.getThreadCpuTime(sampler.id) to System.nanoTime()
                work()
                val percent = 100.0 * (clock.getThreadCpuTime(sampler.id) - cpu) / (System.nanoTime() - wall)
                println("$what: %.3f %% of a processor".format(percent))
            }
        }
        percentOf("armed and quiet") { Thread.sleep(20_000) }
        percentOf("main busy with short messages") { repeat(400) { main.post { Thread.sleep(1) }; Thread.sleep(15) } }
        val calls = Calls()
        for (round in 1..3) {
            calls.cpuNs.clear()
            watched = calls
            percentOf("50 Hz, round $round") { frame(1) { deep(60) { Thread.sleep(20_000) } } }
            println("  of that in getStackTrace: %.1f us a call of %d".format(calls.cpuNs.average() / 1000, calls.cpuNs.size))
            // The least that a thread costs that asks 50 times a second for the same stack, and does nothing else.
            for ((what, ask) in listOf("a timer" to false, "a timer and getStackTrace" to true)) {
                val done = CountDownLatch(1)
                val asking = Thread {
                    Thread.sleep(500)
                    val cpu = clock.currentThreadCpuTime
                    val wall = System.nanoTime()
                    repeat(500) {
                        LockSupport.parkNanos(20_000_000)
                        if (ask) Looper.getMainLooper().thread.stackTrace
                    }
                    println("$what: %.3f %% of a processor".format(100.0 * (clock.currentThreadCpuTime - cpu) / (System.nanoTime() - wall)))
                    done.countDown()
                }
                asking.start()
                frame(1) { deep(60) { done.await() } }
            }
        }
        // A main thread that watches its own clock: gaps while it is stopped, and in spans of the same length when it is not.
        val ends = LongArray(1 shl 20)
        val gaps = LongArray(1 shl 20)
        var count = 0
        calls.spans.clear()
        captured(CONFIG, tid) {
            frame(1) {
                deep(60) {
                    var last = System.nanoTime()
                    val end = last + 20_000_000_000
                    while (last < end) {
                        val now = System.nanoTime()
                        if (now - last > 2_000 && count < gaps.size) {
                            ends[count] = now
                            gaps[count++] = now - last
                        }
                        last = now
                    }
                }
            }
        }
        watched = null
        for ((what, shift) in listOf("stopped in a call" to 0L, "the same, 10 ms later" to 10_000_000L)) {
            val longest = calls.spans.map { (begin, end) ->
                (0 until count).filter { ends[it] >= begin + shift && ends[it] - gaps[it] <= end + shift }.maxOfOrNull { gaps[it] } ?: 0
            }.sorted()
            val us = listOf(50, 90, 95, 99).map { "p$it ${longest[(longest.size - 1) * it / 100] / 1000} us" }
            println("$what: $us of ${longest.size}")
        }
    }

    /** The looper's thread, with a note of each call. */
    private class Calls : Thread() {
        val spans = ArrayList<Pair<Long, Long>>()
        val cpuNs = ArrayList<Long>()
        private val clock = ManagementFactory.getThreadMXBean()

        override fun getStackTrace(): Array<StackTraceElement> {
            val cpu = clock.currentThreadCpuTime
            val begin = System.nanoTime()
            val frames = Looper.getMainLooper().thread.stackTrace
            spans += begin to System.nanoTime()
            cpuNs += clock.currentThreadCpuTime - cpu
            return frames
        }
    }

    /** Whom the sampler asks, if it is not the looper's thread itself. */
    private var watched: Thread? = null

    private fun deep(depth: Int, work: () -> Unit): Int = if (depth == 0) work().hashCode() else deep(depth - 1, work) + 1

    /** Records [work] in a window of this configuration, with the sampler of the thread [tid], and returns the text. */
    private fun captured(config: String, tid: Int, work: () -> Unit): String {
        val home = File(directory, "${System.nanoTime()}").apply { mkdirs() }
        val file = File(home, "remote.json").apply { writeText(config) }
        val settings = JSONObject().put("directory", File(home, "agent").path).put("config_file", file.path)
            .put("app", "com.example.planted").put("process", "com.example.planted")
        assertTrue(Native.loadError, Native.load())
        assertNull(Native.install(settings.toString()))
        await("a window") { Native.open("hand") == null }
        await("a recording") { JSONObject(Native.health() ?: "{}").optJSONObject("control")?.optString("state") == "open" }
        // The sampler's thread ends if no samples are wanted.
        if ("\"percent\": 100" in config) await("the wish for samples") { Native.stacks() != 0 }
        val android = AndroidApp(RuntimeEnvironment.getApplication(), StackAttempts(File(home, "stacks"), "1"))
        // As ART does on the thread that asks.
        val app = object : StackSampler.App by android {
            override fun mayCall(): Boolean {
                Native.beginSection("SuspendThreadByPeer suspended main")
                Native.endSection()
                return android.mayCall()
            }
        }
        // This machine may be busy: a JVM stops a thread that gets no processor, too, and takes its time for it.
        val real = ProcMainState(tid)
        val state = object : MainState by real {
            override val state = 'S'
        }
        val sampler = StackSampler(app, watched ?: Looper.getMainLooper().thread, state, tid, maxCallNs = 30_000_000_000)
        val thread = Thread({ real.use { sampler.run() } }, "tracetee-stacks").apply { start() }
        work()
        assertNull(Native.close("hand"))
        await("its end") { !Native.isRecording() }
        thread.join()
        assertNull(sampler.ended)
        val ready = File(home, "agent/spool/ready")
        await("the capture") { ready.list().orEmpty().size == 1 }
        assertNull(Native.uninstall())
        val text = run("convert", ready.listFiles()!!.single().path, "-o", "-", "--to", "ftrace")
        assertFalse("a section of ART's", "SuspendThread" in text)
        return text
    }

    /** Makes a frame of AOSP's choreographer, with the sections that the view system writes, and waits for its end. */
    private fun frame(number: Int, work: () -> Unit) {
        val done = CountDownLatch(1)
        main.post {
            Choreographer.getInstance().postFrameCallback {
                Native.beginSection("Choreographer#doFrame $number")
                Native.beginSection("traversal")
                work()
                Native.endSection()
                Native.endSection()
                done.countDown()
            }
        }
        val end = System.nanoTime() + 600_000_000_000
        // Robolectric's clock stands until it is moved.
        while (!done.await(5, TimeUnit.MILLISECONDS)) {
            ShadowSystemClock.advanceBy(16, TimeUnit.MILLISECONDS)
            check(System.nanoTime() < end) { "the frame did not come" }
        }
    }

    /** Returns the report of the capture. The looper's thread is not the process's first one here, as it is on Android. */
    private fun report(text: String, tid: Int): JSONObject {
        val pid = ProcessHandle.current().pid()
        val padded = Regex("""-$tid( +)\(""")
        val ofMain = text.lineSequence().map { padded.replace(it) { found -> "-$pid${found.groupValues[1]}(" } }
            .joinToString("\n") { it.replace("\"tid\":$tid,", "\"tid\":$pid,") }
        val file = File(directory, "main.ftrace").apply { writeText(ofMain) }
        return JSONObject(run("report", file.path, "--format", "json"))
    }

    private fun run(vararg arguments: String): String {
        val process = ProcessBuilder(program ?: "tracetee", *arguments).redirectError(File(directory, "err")).start()
        val text = process.inputStream.bufferedReader().readText()
        check(process.waitFor() == 0) { "${arguments.toList()}: ${File(directory, "err").readText()}" }
        return text
    }

    private fun <T> onMain(call: () -> T): T {
        val done = CountDownLatch(1)
        var result: T? = null
        main.post {
            result = call()
            done.countDown()
        }
        check(done.await(30, TimeUnit.SECONDS))
        return result!!
    }

    private fun await(what: String, isThere: () -> Boolean) {
        val end = System.nanoTime() + 300_000_000_000
        while (!isThere()) {
            assertTrue("$what did not come: ${Native.health()}", System.nanoTime() < end)
            Thread.sleep(20)
        }
    }

    private companion object {
        const val SEEDS = 50
        const val FRAMES = 2
        const val STACKS = """, "stacks": {"percent": 100, "max": 60000}"""

        /** On a machine on which others compute, the planted work takes twenty times as long, and has as many more samples. */
        const val CONFIG = """{"schema": 1, "seq": 7, "budget": {"captures_per_hour": 100, "captures_per_day": 100, "cpu_percent": 100},
            "windows": [{"id": "hand", "opens": "manual", "max_s": 3600, "cool_down_s": 0, "tags": ["app"],
            "recorder": {"capacity_kb": 65536}$STACKS}]}"""
    }
}
