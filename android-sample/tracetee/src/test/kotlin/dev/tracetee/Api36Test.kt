package dev.tracetee

import android.app.Activity
import android.app.ActivityManager
import android.app.ApplicationStartInfo
import android.app.IActivityManager
import android.app.IApplicationStartInfoCompleteListener
import android.content.pm.ParceledListSlice
import android.os.Bundle
import android.os.HandlerThread
import android.os.IProfilingResultCallback
import android.os.IProfilingService
import android.os.Looper
import android.os.ProfilingFrameworkInitializer
import android.os.ProfilingManager
import android.os.ProfilingResult
import android.os.ProfilingServiceManager
import android.view.AttachedSurfaceControl
import android.view.FrameMetrics
import android.view.SurfaceControl
import android.view.View
import java.io.File
import java.time.Duration
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.annotation.Implementation
import org.robolectric.annotation.Implements
import org.robolectric.shadows.FrameMetricsBuilder
import org.robolectric.shadows.ShadowActivityManager
import org.robolectric.shadows.ShadowServiceManager
import org.robolectric.shadows.ShadowSurfaceControl
import org.robolectric.util.ReflectionHelpers

/**
 * Tests the library in an app of API 36 with AOSP's own classes: view roots, surface controls and JankData, FrameMetrics,
 * ActivityManager and ApplicationStartInfo, ProfilingManager. The compositor's natives and the system's services below them
 * are stand-ins. Needs what [AppTest] does.
 */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [36], manifest = Config.NONE, shadows = [Compositor::class, Activities::class])
class Api36Test : CaptureTest() {
    /** Each test is an app's process, which keeps its profiler. */
    @Before
    fun begin() {
        Compositor.added.clear()
        Compositor.removed.clear()
        Activities.looks = 0
        ReflectionHelpers.setStaticField(Profiling::class.java, "first", null)
    }

    @Test
    fun theCompositorReportsFramesOfTheSurfaceThatTheWindowHas() {
        install(TraceteeConfig.Builder().setFrameVerdicts(true))
        open()
        val activity = Robolectric.buildActivity(Activity::class.java).setup()
        val view = activity.get().window.decorView
        drawTwice(view)
        val first = Compositor.added.single()
        assertNotEquals("there is no surface yet", 0L, first.surface)
        first.send(jank(7, SurfaceControl.JankData.JANK_NONE, 8), jank(8, SurfaceControl.JankData.JANK_COMPOSER, 9))
        first.send()
        first.send(jank(9, SurfaceControl.JankData.JANK_APPLICATION or SurfaceControl.JankData.JANK_OTHER, 12))
        // The end of a registration drops reports that are in progress.
        settle()
        // In the background a window loses its surface.
        activity.pause().stop()
        activity.restart().resume()
        drawTwice(view)
        assertEquals(listOf(first.handle), Compositor.removed)
        val second = Compositor.added.single { it != first }
        second.send(jank(10, SurfaceControl.JankData.JANK_NONE, 8))
        settle()
        activity.pause().stop().destroy()
        assertEquals(listOf(first.handle, second.handle), Compositor.removed)
        // One that comes all the same.
        second.send(jank(11, SurfaceControl.JankData.JANK_NONE, 8))
        settle()
        val expected = listOf(
            "vsync=7 jank=0 allowed_ns=10000000 total_ns=8000000",
            "vsync=8 jank=1 allowed_ns=10000000 total_ns=9000000",
            "vsync=9 jank=6 allowed_ns=10000000 total_ns=12000000",
            "vsync=10 jank=0 allowed_ns=10000000 total_ns=8000000",
        )
        assertEquals(expected, close("jank_data", "vsync", "undrawn").filter { "jank=" in it })
    }

    /** Batches in another order, with holes, to a consumer that throws; and a registration that the compositor refuses. */
    @Test
    fun oneBatchDoesNotDisturbAnother() {
        val view = Robolectric.buildActivity(Activity::class.java).setup().get().window.decorView
        val posted = ArrayDeque<Runnable>()
        val taken = ArrayList<Long>()
        var throws = true
        fun register() = JankListener.register(AttachedSurfaceControl::class.java, view.rootSurfaceControl!!, posted::add) {
            check(!throws) { "planted" }
            taken += it.vsync
        }
        val listener = register()!!
        val added = Compositor.added.single()
        added.send(jank(12, 0, 1), null, jank(10, 0, 1))
        added.send()
        added.send(jank(11, 0, 1))
        posted.removeFirst().run()
        throws = false
        while (posted.isNotEmpty()) posted.removeLast().run()
        assertEquals(listOf(11L), taken)
        listener.release()
        added.send(jank(13, 0, 1))
        while (posted.isNotEmpty()) posted.removeFirst().run()
        assertEquals(listOf(11L), taken)
        assertEquals(listOf(added.handle), Compositor.removed)
        assertTrue("$added", added.listener == added.listener && added.listener.hashCode() == added.listener.hashCode())
        // A system without the method, and one whose method is another's.
        for ((type, surface) in listOf(AttachedSurfaceControl::class.java to "no surface control", String::class.java to "no surface")) {
            assertNull(JankListener.register(type, surface, Runnable::run) { error("no data") })
        }
    }

    @Test
    fun aFrameHasTheVsyncOfItsTimeline() {
        install(TraceteeConfig.Builder().setFrameVerdicts(true))
        open()
        val window = Robolectric.buildActivity(Activity::class.java).setup().get().window
        val metrics = FrameMetricsBuilder().setMetric(FrameMetrics.DRAW_DURATION, 21_000_000).build()
        ReflectionHelpers.getField<LongArray>(metrics, "mTimingData")[ReflectionHelpers.getStaticField<Int>(INDEX, "FRAME_TIMELINE_VSYNC_ID")] = 4711
        shadowOf(window).reportOnFrameMetricsAvailable(metrics)
        assertEquals("vsync=4711", close("frame_metrics", "vsync", "undrawn").single { "total_ns=21000000" in it }.substringBefore(' '))
    }

    @Test
    fun theStartIsInTheCaptureAndAgainOnceTheAppIsFullyDrawn() {
        install(TraceteeConfig.Builder())
        open()
        // The agent's thread does so once a second, and may have before the capture began.
        ReflectionHelpers.setStaticField(AppStart::class.java, "isAsked", false)
        repeat(2) { AppStart.writeOnce(app) }
        val listener = Activities.listeners.poll(30, TimeUnit.SECONDS)!!
        listener.onApplicationStartInfoComplete(start())
        await("the second look") { Activities.looks > 0 && Thread.getAllStackTraces().keys.none { it.name == "tracetee-start" } }
        assertTrue("two listeners", Activities.listeners.isEmpty())
        close()
        val starts = file.readLines().filter { "tracetee.start" in it }.map { JSONObject(it.removePrefix("#@ ")).getJSONObject("args").getString("start") }
        val first = Regex("vsync=- reason=6 type=1 mode=2 launch_ns=\\d+ fork_ns=\\d+ bind_ns=\\d+ first_frame_ns=\\d+ mono_ns=100000000")
        val second = Regex("vsync=- reason=6 .* first_frame_ns=(\\d+) fully_drawn_ns=(\\d+) mono_ns=100000000")
        assertTrue("$starts", starts.size == 2 && first.matches(starts[0]))
        val (drawn, fully) = second.matchEntire(starts[1])!!.destructured
        assertEquals(300_000_000L, fully.toLong() - drawn.toLong())
    }

    @Test
    fun aProfileOfTheCaptureIsAskedForAndKept() {
        val service = Profilings()
        install(TraceteeConfig.Builder(), REMOTE.dropLast(1) + ""","profiling": {"requests": [{"windows": ["hand"], "kind": "system_trace"}]}}""")
        open()
        val (type, parameters, tag) = service.asked.poll(30, TimeUnit.SECONDS)!!
        assertEquals(ProfilingManager.PROFILING_TYPE_SYSTEM_TRACE, type)
        assertEquals(setOf(ProfilingManager.KEY_DURATION_MS), parameters.keySet())
        close()
        val result = File(app.filesDir, "profiling/result").apply { parentFile!!.mkdirs() }
        result.writeBytes(byteArrayOf(0x0a, 2, 0x40, 1))
        service.callback!!.sendResult("/profiling/result", 1, 2, ProfilingResult.ERROR_NONE, tag, null, 0)
        val ready = File(app.noBackupFilesDir, "tracetee/spool/ready")
        await("the profile") { ready.list().orEmpty().size == 1 }
        val name = ready.list()!!.single()
        assertTrue(name, name.startsWith(tag.removePrefix("tracetee-")) && "~system_trace.hand~" in name)
    }

    private fun drawTwice(view: View) {
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(100))
        repeat(2) { view.viewTreeObserver.dispatchOnDraw() }
    }

    /** Waits for reports on the library's thread. */
    private fun settle() = shadowOf(ReflectionHelpers.getField<HandlerThread>(FrameWatch, "thread").looper).idle()

    private fun jank(vsync: Long, type: Int, ms: Long) = SurfaceControl.JankData(vsync, type, 16_000_000, 10_000_000, ms * 1_000_000)

    private companion object {
        val INDEX: Class<*> = Class.forName("android.view.FrameMetrics\$Index")
    }
}

/** The system's record of the start. */
private fun start(isFullyDrawn: Boolean = false) = ApplicationStartInfo(0).apply {
    pid = 4711
    reason = ApplicationStartInfo.START_REASON_LAUNCHER
    startType = ApplicationStartInfo.START_TYPE_COLD
    launchMode = ApplicationStartInfo.LAUNCH_MODE_SINGLE_INSTANCE
    val times = mapOf(
        ApplicationStartInfo.START_TIMESTAMP_LAUNCH to 100L,
        ApplicationStartInfo.START_TIMESTAMP_FORK to 150L,
        ApplicationStartInfo.START_TIMESTAMP_BIND_APPLICATION to 200L,
        ApplicationStartInfo.START_TIMESTAMP_APPLICATION_ONCREATE to 0L,
        ApplicationStartInfo.START_TIMESTAMP_FIRST_FRAME to 600L,
        // Of a later level.
        29 to 7L,
    )
    for ((key, ms) in times) addStartupTimestamp(key, ms * 1_000_000)
    if (isFullyDrawn) addStartupTimestamp(ApplicationStartInfo.START_TIMESTAMP_FULLY_DRAWN, 900_000_000)
}

/** A listener of the compositor. */
class Added(val handle: Long, val surface: Long, val listener: SurfaceControl.OnJankDataListener) {
    fun send(vararg batch: SurfaceControl.JankData?) = listener.onJankDataAvailable(batch.asList())
}

/** Stand-in for the natives of SurfaceControl that call the compositor. */
@Implements(SurfaceControl::class, isInAndroidSdk = false)
class Compositor : ShadowSurfaceControl() {
    companion object {
        val added = ArrayList<Added>()
        val removed = ArrayList<Long>()

        @JvmStatic
        @Implementation
        fun nativeCreateJankDataListenerWrapper(surface: Long, listener: SurfaceControl.OnJankDataListener): Long {
            val one = Added(added.size + 1L, surface, listener)
            added += one
            return one.handle
        }

        @JvmStatic
        @Implementation
        fun nativeRemoveJankDataListener(handle: Long, afterVsync: Long) {
            assertEquals(0, afterVsync)
            removed += handle
        }
    }
}

/** Stand-in for the system's activity service. */
@Implements(ActivityManager::class)
class Activities : ShadowActivityManager() {
    companion object {
        val listeners = LinkedBlockingQueue<IApplicationStartInfoCompleteListener>()

        /** Times that the app has asked for its last start. */
        @Volatile
        var looks = 0

        @JvmStatic
        @Implementation(methodName = "getService")
        fun service(): IActivityManager = object : IActivityManager.Default() {
            override fun addApplicationStartInfoCompleteListener(listener: IApplicationStartInfoCompleteListener, user: Int) {
                listeners += listener
            }

            override fun getHistoricalProcessStartReasons(name: String?, most: Int, user: Int): ParceledListSlice<ApplicationStartInfo> {
                looks++
                return ParceledListSlice(listOf(start(isFullyDrawn = true)))
            }
        }
    }
}

/** Stand-in for the system's profiling service. */
private class Profilings : IProfilingService.Default() {
    val asked = LinkedBlockingQueue<Triple<Int, Bundle, String>>()

    @Volatile
    var callback: IProfilingResultCallback? = null

    init {
        ShadowServiceManager.addBinderService("profiling_service", IProfilingService::class.java, this)
        if (ProfilingFrameworkInitializer.getProfilingServiceManager() == null) {
            ProfilingFrameworkInitializer.setProfilingServiceManager(ProfilingServiceManager())
        }
    }

    override fun requestProfiling(type: Int, parameters: Bundle, tag: String, most: Long, least: Long, app: String) {
        asked += Triple(type, parameters, tag)
    }

    override fun registerResultsCallback(isGeneral: Boolean, given: IProfilingResultCallback) {
        callback = given
    }
}
