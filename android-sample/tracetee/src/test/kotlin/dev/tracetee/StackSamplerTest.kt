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
                    val parts = List(2) { Work.all[random.nextInt(Work.all.size)] to (30 + random.nextInt(60)) * 1_000_000L }
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
        // Their callers and the test itself have run, too.
        val planted = seen.keys.filter { it.startsWith("com.example.planted.") && it != "com.example.planted.Work" }
        assertEquals("a function that did not run", truth.keys, planted.toSet())
        // Within 5 % on an idle machine; twice that, but for time that no sample covers, where the sampler waits for a processor, too.
        for ((name, ns) in truth) assertTrue("$name: $ns, seen ${seen[name]}", Math.abs(seen[name]!! - ns) <= ns / 10 + open / truth.size)
        assertTrue("$open of ${truth.values.sum()} are unexplained still", open * 5 <= truth.values.sum())
        // Which function a frame is named for: one that took as long as any, as far as samples 20 ms apart can tell.
        var named = 0
        val frames = report.getJSONArray("explanations")
        assertTrue("${frames.length()}", frames.length() >= perFrame.size)
        val byNumber = perFrame.withIndex().toMutableList()
        for (place in 0 until frames.length()) {
            val cause = frames.getJSONObject(place).getJSONArray("causes").getJSONObject(0)
            val took = byNumber.getOrNull(place)?.value ?: continue
            if ((took[cause.getString("key").substringBeforeLast('.')] ?: 0) + 25_000_000 >= took.values.max()) named++
        }
        println("named in $named of ${perFrame.size} frames")
        assertTrue("$named of ${perFrame.size}", named * 100 >= perFrame.size * 95)
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
        percentOf("50 Hz") { frame(1) { Thread.sleep(20_000) } }
        val busy = CountDownLatch(1)
        main.post { deep(60) { Work.all[0].second(2_000_000_000) }; busy.countDown() }
        Thread.sleep(300)
        val calls = List(50) {
            Thread.sleep(20)
            val begin = System.nanoTime()
            Looper.getMainLooper().thread.stackTrace
            System.nanoTime() - begin
        }.sorted()
        println("a call: median ${calls[25] / 1000} us, slowest ${calls.last() / 1000} us")
        busy.await(60, TimeUnit.SECONDS)
    }

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
        val android = AndroidApp(RuntimeEnvironment.getApplication(), StackAttempts(File(home, "stacks"), "1"))
        // As ART does on the thread that asks.
        val app = object : StackSampler.App by android {
            override fun beginAttempt(): Boolean {
                Native.beginSection("SuspendThreadByPeer suspended main")
                Native.endSection()
                return android.beginAttempt()
            }
        }
        // This machine may be busy: a JVM stops a thread that gets no processor, too, and takes its time for it.
        val real = ProcMainState(tid)
        val state = object : MainState by real {
            override val state = 'S'
        }
        val sampler = StackSampler(app, Looper.getMainLooper().thread, state, tid, maxCallNs = 30_000_000_000)
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
        val end = System.nanoTime() + 30_000_000_000
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
        val end = System.nanoTime() + 60_000_000_000
        while (!isThere()) {
            assertTrue("$what did not come: ${Native.health()}", System.nanoTime() < end)
            Thread.sleep(20)
        }
    }

    private companion object {
        const val SEEDS = 50
        const val FRAMES = 2
        const val STACKS = """, "stacks": {"percent": 100, "max": 60000}"""
        const val CONFIG = """{"schema": 1, "seq": 7, "budget": {"captures_per_hour": 100, "captures_per_day": 100, "cpu_percent": 100},
            "windows": [{"id": "hand", "opens": "manual", "max_s": 120, "cool_down_s": 0, "tags": ["app"]$STACKS}]}"""
    }
}
