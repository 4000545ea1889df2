package dev.tracetee

import android.app.Activity
import android.content.ComponentCallbacks2
import android.content.Context
import android.os.Handler
import android.os.Looper
import android.os.PowerManager
import android.view.Choreographer
import android.view.FrameMetrics
import android.view.SurfaceHolder
import android.view.SurfaceView
import android.view.Window
import java.io.File
import java.time.Duration
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.FrameMetricsBuilder

/** Tests the platform's verdicts in captures, by the FrameMetrics that Robolectric hands to a window's listeners. As [AppTest]. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [34, 36], manifest = Config.NONE)
class FrameVerdictTest : CaptureTest() {

    @Test
    @Suppress("DEPRECATION")
    fun aWindowsFramesAreInTheCaptureFromItsStartUntilItIsDestroyed() {
        install(TraceteeConfig.Builder().setFrameVerdicts(true))
        open()
        val activity = Robolectric.buildActivity(Activity::class.java).setup()
        val window = activity.get().window
        val nowNs = System.nanoTime()
        val power = app.getSystemService(Context.POWER_SERVICE) as PowerManager
        shadowOf(power).setIsPowerSaveMode(true)
        shadowOf(power).setCurrentThermalStatus(PowerManager.THERMAL_STATUS_SEVERE)
        report(window, nowNs - 20_000_000, 15_000_000)
        report(window, nowNs, 21_000_000)
        (app as ComponentCallbacks2).onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_RUNNING_CRITICAL)
        Event.get().arg("other", nowNs).instant("other")
        val text = close("frame_metrics").last()
        // The rules of redaction take the long number of the other record.
        assertTrue(text, Regex("vsync=[-0] intended_ns=\\d+ mono_ns=$nowNs allowed_ns=16000000 total_ns=21000000 gpu_ns=5000000").matches(text))
        assertTrue(file.readText(), "\"other\":\"\\u003cdigits>\"" in file.readText())
        // The device's state is written once, not with each frame.
        for (counter in listOf("refresh Hz|60", "power save|1", "thermal status|${PowerManager.THERMAL_STATUS_SEVERE}")) {
            assertEquals(counter, 1, file.readLines().count { it.endsWith("|device: $counter") })
        }
        assertTrue(file.readText(), file.readText().contains("{\"args\":{\"level\":15},\"cat\":\"tracetee.device\"}"))
        // Counted, too, with or without a capture.
        val counts = Tracetee.countFrames(nowNs, nowNs + 1)!!
        assertEquals(listOf(1, 1, 0), counts.run { listOf(frames, late, frozen) })
        assertEquals(FrameCounts.Cause.DRAW to 5_000_000L, counts.topCause to counts.overrunNs)
        assertEquals(0, Tracetee.countFrames(nowNs + 1, nowNs + 2)!!.frames)
        // On the trace's clock, a moment ago.
        val intendedNs = text.substringAfter("intended_ns=").substringBefore(" ").toLong()
        assertTrue("$intendedNs, ${Native.nowNs()}", Native.nowNs() - intendedNs in 0..60_000_000_000)

        // Not while nothing records.
        report(window, nowNs, 22_000_000)
        assertEquals(2, Tracetee.countFrames(nowNs, nowNs + 1)!!.frames)
        open()
        report(window, nowNs, 23_000_000)
        val tasks = File(app.cacheDir, "task")
        for ((thread, set) in listOf("11" to "/top-app", "12" to "/top-app", "13" to "/background")) {
            File(tasks, thread).apply { mkdirs() }.resolve("cgroup").writeText("3:cpuset:$set\n2:cpu:/\n0::/uid_1/pid_2\n")
        }
        File(tasks, "14").mkdirs() // A thread that has ended.
        DeviceContext(app, tasks).apply { repeat(2) { writeIfDue(isRecording = true, refreshHz = 60.0) } }
        val listener = WindowFrames(window, Handler(Looper.getMainLooper()), null).apply { attach() }
        activity.destroy()
        report(window, nowNs, 24_000_000)
        listener.detach()
        // A report that was in progress.
        listener.onFrameMetricsAvailable(window, metrics(nowNs, 25_000_000), 0)
        assertEquals(listOf("23", "24"), close("frame_metrics").map { it.substringAfter("total_ns=").substringBefore("000000 ") })
        val cpusets = "{\"args\":{\"/background\":\"13\",\"/top-app\":\"11 12\"},\"cat\":\"tracetee.device\"}"
        assertEquals(file.readText(), 1, file.readLines().count { it == "#@ $cpusets" })
    }

    @Test
    fun withoutTheSettingNobodyListens() {
        install(TraceteeConfig.Builder())
        open()
        report(Robolectric.buildActivity(Activity::class.java).setup().get().window, System.nanoTime(), 21_000_000)
        assertEquals(emptyList<String>(), close("frame_metrics"))
        assertNull(Tracetee.countFrames(0, Long.MAX_VALUE))
    }

    /** A vsync callback is posted while a frame is drawn, and no other until it has come. */
    @Test
    fun aFrameThatFollowsADrawnOneHasItsDeadline() {
        install(TraceteeConfig.Builder().setFrameVerdicts(true))
        val view = Robolectric.buildActivity(Activity::class.java).setup().get().window.decorView
        fun draw() = repeat(3) { view.viewTreeObserver.dispatchOnDraw() }
        draw()
        open()
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(100))
        draw()
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(100))
        draw()
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(100))
        // For each of the two nothing else was drawn.
        val (undrawn, texts) = close("vsync", "undrawn").partition { "intended_ns" !in it }
        assertEquals("$texts", 2, texts.size)
        assertEquals("$undrawn", 2, undrawn.size)
        for (text in undrawn) assertTrue(text, Regex("vsync=(-|\\d+)").matches(text))
        // Robolectric expects each frame at the begin of its clock, and the two clocks differ by some ns either way.
        val expected = Regex("vsync=(-|\\d+) intended_ns=\\d+( expected_ns=-?\\d+)? mono_ns=\\d+( suspended_ns=\\d+)?( allowed_ns=\\d+)?")
        for (text in texts) assertTrue(text, expected.matches(text))
    }

    /** A row of three frames of AOSP's choreographer: the library's callback asks for a fourth one, in which nothing is drawn. */
    @Test
    fun theFrameThatOnlyTheCallbackHasAskedForIsMarked() {
        val records = ArrayList<String>()
        val sink = object : FrameSink(BootTime({ 0 }, { 0 })) {
            override fun write(frame: FrameRecord) {
                records += frame.source
            }
        }
        var isRecording = true
        val deadlines = Deadlines(sink) { isRecording }
        fun row(frames: Int) {
            var left = frames
            val draw = object : Choreographer.FrameCallback {
                override fun doFrame(frameTimeNanos: Long) {
                    records += "drawn"
                    deadlines.onDraw()
                    // After the library's callback, as all drawing comes after the callbacks.
                    if (--left > 0) Choreographer.getInstance().postFrameCallback(this)
                }
            }
            Choreographer.getInstance().postFrameCallback(draw)
            shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(200))
        }
        row(3)
        assertEquals(listOf("drawn", "vsync", "drawn", "vsync", "drawn", "vsync", "undrawn"), records)
        records.clear()
        isRecording = false
        row(3)
        assertEquals(List(3) { "drawn" }, records)
    }

    @Test
    fun beforeAndroid12AFrameIsLateByTheDisplaysPeriod() {
        install(TraceteeConfig.Builder().setFrameVerdicts(true))
        val window = Robolectric.buildActivity(Activity::class.java).setup().get().window
        val nowNs = System.nanoTime()
        fun late(hz: Double): Pair<Int, Long> {
            FrameWatch.setRefreshRate(hz)
            shadowOf(window).reportOnFrameMetricsAvailable(metrics(nowNs, 10_000_000, deadlineNs = 0))
            return Tracetee.countFrames(nowNs, nowNs + 1)!!.run { late to overrunNs }
        }
        assertEquals(0 to 0L, late(60.0))
        // Two frames of 10 ms: one by 8.3 ms is late by 1.7. A rate that cannot be changes nothing.
        assertEquals(1 to 10_000_000 - (1e9 / 120).toLong(), late(120.0))
        assertEquals(2 to 2 * (10_000_000 - (1e9 / 120).toLong()), late(0.0))
        assertEquals(2 to 2 * (10_000_000 - (1e9 / 120).toLong()), late(60.0))
    }

    /** A surface that is there, one that comes later, and one that goes. */
    @Test
    fun aSurfaceIsListenedToWhileItIsThere() {
        val view = SurfaceView(app)
        val holder = view.holder
        val callbacks = ArrayList<SurfaceHolder.Callback>()
        var asked = 0
        val frames = SurfaceFrames(view) { asked++; null }
        frames.attach()
        callbacks.addAll(shadowOf(view).fakeSurfaceHolder.callbacks)
        assertEquals(listOf(frames), callbacks)
        val before = asked
        frames.surfaceCreated(holder)
        assertEquals(before + 1, asked)
        frames.surfaceDestroyed(holder)
        frames.detach()
        assertTrue(shadowOf(view).fakeSurfaceHolder.callbacks.toList().isEmpty())
    }

    @Test
    fun anActivityThatComesBackHasItsLastScreen() {
        install(TraceteeConfig.Builder())
        val (first, second) = List(2) { Robolectric.buildActivity(Activity::class.java) }
        open()
        first.setup()
        Tracetee.setScreen("product/{id}")
        first.pause()
        // Of no activity.
        Tracetee.setScreen("nowhere")
        second.setup().pause()
        first.resume()
        close()
        val screens = file.readLines().mapNotNull { it.substringAfter("screen:", "").substringBefore('|').ifEmpty { null } }
        assertEquals(listOf("Activity", "product/{id}", "nowhere", "Activity", "product/{id}"), screens.fold(ArrayList<String>()) { all, one -> if (all.lastOrNull() != one) all.add(one); all })
    }

    private fun metrics(intendedNs: Long, totalNs: Long, deadlineNs: Long = 16_000_000): FrameMetrics = FrameMetricsBuilder()
        .setMetric(FrameMetrics.INTENDED_VSYNC_TIMESTAMP, intendedNs)
        .setMetric(FrameMetrics.DRAW_DURATION, totalNs)
        .setMetric(FrameMetrics.DEADLINE, deadlineNs)
        .setMetric(FrameMetrics.GPU_DURATION, 5_000_000)
        .build()

    private fun report(window: Window, intendedNs: Long, totalNs: Long) {
        shadowOf(window).reportOnFrameMetricsAvailable(metrics(intendedNs, totalNs))
    }
}
