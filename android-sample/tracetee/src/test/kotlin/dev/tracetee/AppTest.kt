package dev.tracetee

import android.app.Activity
import android.app.Application
import android.app.job.JobScheduler
import android.content.ComponentCallbacks2
import android.content.Context
import android.content.Intent
import android.net.ConnectivityManager
import android.net.NetworkCapabilities
import android.os.BatteryManager
import android.os.Bundle
import android.view.FrameMetrics
import java.io.File
import java.net.ServerSocket
import java.net.URL
import java.util.concurrent.TimeUnit
import org.json.JSONObject
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertSame
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.FrameMetricsBuilder
import org.robolectric.shadows.ShadowNetworkCapabilities

/**
 * Tests the library in an app, with the real agent and a real collector, on Robolectric's Android. It needs
 * `libtracetee.so` for this machine on `java.library.path` and the path of the program in `TRACETEE`; without them
 * its tests are skipped. tests/android/run provides both.
 */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [34, 36], manifest = Config.NONE)
class AppTest {
    private val app: Application get() = RuntimeEnvironment.getApplication()
    private val program = System.getenv("TRACETEE")
    private var collector: Process? = null

    @After
    fun stop() {
        Tracetee.uninstall()
        collector?.destroy()?.let { collector!!.waitFor(10, TimeUnit.SECONDS) }
    }

    @Test
    @Suppress("DEPRECATION")
    fun aCaptureIsConfiguredMadeAndDelivered() {
        assumeTrue("skipped: TRACETEE is not set", program != null)
        val store = File.createTempFile("store", "").apply { delete(); mkdirs() }
        val url = collect(store, CONFIG)
        network(metered = false)
        assertDone(Tracetee.install(app, TraceteeConfig.Builder().setCollectorUrl(url).build()))
        assertSame("a second install changes nothing", Outcome.DONE, Tracetee.install(app))
        val scheduler = app.getSystemService(Context.JOB_SCHEDULER_SERVICE) as JobScheduler
        await("the job") { scheduler.allPendingJobs.isNotEmpty() }
        val job = scheduler.allPendingJobs.single()
        assertEquals(UploadService::class.java.name, job.service.className)
        assertEquals(60 * 60 * 1000L, job.intervalMillis)

        // The configuration comes from the collector.
        val first = Tracetee.upload(app)
        assertTrue("$first", first is UploadResult.Done && first.delivered.isEmpty() && first.waiting == 0L)
        await("a configuration") { control().optLong("seq", -1) == 7L || "\"seq\":7" in Tracetee.health()!!.json }
        // Screens, and responses of the main loop.
        val activity = Robolectric.buildActivity(Checkout::class.java)
        await("a capture") { Tracetee.openWindow("hand").isDone && Tracetee.isRecording }
        activity.setup()
        Markers.instant("in the capture")
        (app as ComponentCallbacks2).onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_RUNNING_LOW)
        assertDone(Tracetee.closeWindow("hand"))
        await("its end") { !Tracetee.isRecording }

        await("the delivery") { (Tracetee.upload(app) as? UploadResult.Done)?.delivered?.size == 1 }
        val delivered = store.walk().single { it.name.endsWith(".zst") }
        val text = ProcessBuilder(program, "convert", delivered.path, "-o", "-", "--to", "ftrace").start()
            .inputStream.bufferedReader().readText()
        for (expected in listOf("I|", "in the capture", "screen:Checkout")) assertTrue("$expected: $text", expected in text)
        val path = delivered.relativeTo(store).path
        assertTrue(path, "app=${app.packageName}" in path)
    }

    @Test
    fun withoutConsentNothingIsRecorded() {
        assumeTrue("skipped: no libtracetee.so", Native.load())
        assertDone(Tracetee.install(app, TraceteeConfig.Builder().setRemoteConfig(CONFIG).build()))
        await("the configuration") { "\"seq\":7" in Tracetee.health()!!.json }
        assertDone(Tracetee.setConsent(false))
        await("its effect") { Tracetee.openWindow("hand"); Thread.sleep(100); "consent" in Tracetee.health()!!.json }
        assertFalse(Tracetee.isRecording)
        assertDone(Tracetee.setConsent(true))
        await("a capture") { Tracetee.openWindow("hand"); Tracetee.isRecording }
    }

    @Test
    fun aWindowThatWillNotBeRecordedIsRefusedWithTheReason() {
        assumeTrue("skipped: no libtracetee.so", Native.load())
        val config = TraceteeConfig.Builder().setRemoteConfig(CONFIG).setStartWaitMs(1000).build()
        assertDone(Tracetee.install(app, config))
        await("a capture") { Tracetee.openWindow("hand").isDone && Tracetee.isRecording }
        assertDone(Tracetee.closeWindow("hand"))
        await("the refusal") { "hand: cool-down: " in "${Tracetee.openWindow("hand")}" }
        assertFailed("other: no manual window of that id takes part here", Tracetee.openWindow("other"))
        await("the report") { "other: no manual window" in control().optString("last_refused") }
    }

    @Test
    fun theInitializerInstallsByTheManifest() {
        assumeTrue("skipped: no libtracetee.so", Native.load())
        val info = shadowOf(app.packageManager).getInternalMutablePackageInfo(app.packageName).applicationInfo!!
        assertFailed("COLLECTOR_URL", TraceteeInitializer().create(app))
        info.metaData = Bundle().apply {
            putString("dev.tracetee.COLLECTOR_URL", "https://traces.example.com")
            putBoolean("dev.tracetee.ENABLED", false)
        }
        assertFailed("ENABLED", TraceteeInitializer().create(app))
        info.metaData.putBoolean("dev.tracetee.ENABLED", true)
        assertDone(TraceteeInitializer().create(app))
        assertTrue(Tracetee.isInstalled)
        assertTrue(TraceteeInitializer().dependencies().isEmpty())
    }

    @Test
    fun wrongSettingsAreReportedAndTheAppRunsOn() {
        assumeTrue("skipped: no libtracetee.so", Native.load())
        assertFailed("public_key", Tracetee.install(app, TraceteeConfig.Builder().setPublicKey("abc").build()))
        assertFalse(Tracetee.isInstalled)
        assertFailed("http", Tracetee.install(app, TraceteeConfig.Builder().setCollectorUrl("http://elsewhere.example.com").build()))
        assertEquals("the agent is not installed", (Tracetee.upload(app) as UploadResult.Failed).reason)
        assertFailed("the agent is not installed", Tracetee.uninstall())
    }

    @Test
    fun aMainLoopThatDoesNotAnswerIsCaptured() {
        assumeTrue("skipped: no libtracetee.so", Native.load())
        val config = """{"schema": 1, "seq": 9, "windows": [{"id": "blocked", "opens": {"triggers":
            {"any": [{"blocked": {"over_s": 2}}], "before_s": 1, "after_s": 1}}}]}"""
        assertDone(Tracetee.install(app, TraceteeConfig.Builder().setRemoteConfig(config).build()))
        await("the flight recorder") { Tracetee.isRecording }
        // The main loop responds now and then.
        val end = System.nanoTime() + 4_000_000_000
        await("four seconds") { System.nanoTime() > end }
        assertTrue("${Tracetee.health()}", control().isNull("last_capture"))
        // The main loop does not respond: nothing idles it.
        val patience = System.nanoTime() + 30_000_000_000
        while (control().isNull("last_capture")) {
            assertTrue("no capture: ${Tracetee.health()}", System.nanoTime() < patience)
            Thread.sleep(50)
        }
        assertTrue("${Tracetee.health()}", "blocked" in control().toString())
    }

    @Test
    fun jankStatsVerdictsFireTheTrigger() {
        assumeTrue("skipped: no libtracetee.so", Native.load())
        val config = """{"schema": 1, "seq": 8, "windows": [{"id": "jank", "opens": {"triggers":
            {"any": [{"custom": {"name": "jankstats"}}], "before_s": 1, "after_s": 1}}}]}"""
        assertDone(Tracetee.install(app, TraceteeConfig.Builder().setRemoteConfig(config).build()))
        await("the flight recorder") { Tracetee.isRecording }
        val window = Robolectric.buildActivity(Checkout::class.java).setup().get().window
        val hook = JankHook.attach(window, overMs = 100)
        assertTrue(hook.isTracking)
        // JankStats begins to listen on the main loop's next turn.
        shadowOf(android.os.Looper.getMainLooper()).idle()
        fun frame(ms: Long) = shadowOf(window).reportOnFrameMetricsAvailable(
            FrameMetricsBuilder()
                .setMetric(FrameMetrics.TOTAL_DURATION, ms * 1_000_000)
                .setMetric(FrameMetrics.DEADLINE, 16_000_000)
                .setMetric(FrameMetrics.INTENDED_VSYNC_TIMESTAMP, System.nanoTime() + 1_000_000_000)
                .setMetric(FrameMetrics.VSYNC_TIMESTAMP, System.nanoTime() + 1_000_000_000)
                .setMetric(FrameMetrics.DRAW_DURATION, ms * 1_000_000)
                .build(),
        )
        for (ms in listOf(8L, 60L)) frame(ms)
        Thread.sleep(600)
        assertTrue("${Tracetee.health()}", control().isNull("last_capture") && "fired" !in control().getString("state"))
        frame(200)
        await("a capture") { !control().isNull("last_capture") }
        assertTrue("${Tracetee.health()}", "jankstats" in control().toString())
        hook.isTracking = false
    }

    @Test
    fun theNetworkIsReported() {
        network(metered = true)
        assertEquals("metered", NetState.of(app).getString("network"))
        assertFalse(NetState.of(app).getBoolean("roaming"))
        network(metered = true, roaming = true)
        assertTrue(NetState.of(app).getBoolean("roaming"))
        network(metered = false)
        val state = NetState.of(app)
        assertEquals("unmetered", state.getString("network"))
        assertEquals(80, state.getInt("battery_percent"))
        assertTrue(state.getBoolean("charging"))
        shadowOf(app.getSystemService(Context.CONNECTIVITY_SERVICE) as ConnectivityManager).setActiveNetworkInfo(null)
        assertEquals("none", NetState.of(app).getString("network"))
    }

    @Suppress("DEPRECATION")
    private fun network(metered: Boolean, roaming: Boolean = false) {
        val manager = app.getSystemService(Context.CONNECTIVITY_SERVICE) as ConnectivityManager
        shadowOf(manager).setDefaultNetworkActive(true)
        shadowOf(manager).setActiveNetworkInfo(
            org.robolectric.shadows.ShadowNetworkInfo.newInstance(
                android.net.NetworkInfo.DetailedState.CONNECTED,
                if (metered) ConnectivityManager.TYPE_MOBILE else ConnectivityManager.TYPE_WIFI,
                0,
                true,
                android.net.NetworkInfo.State.CONNECTED,
            ),
        )
        val capabilities = ShadowNetworkCapabilities.newInstance()
        if (!roaming) shadowOf(capabilities).addCapability(NetworkCapabilities.NET_CAPABILITY_NOT_ROAMING)
        shadowOf(manager).setNetworkCapabilities(manager.activeNetwork, capabilities)
        val battery = Intent(Intent.ACTION_BATTERY_CHANGED)
            .putExtra(BatteryManager.EXTRA_LEVEL, 80)
            .putExtra(BatteryManager.EXTRA_SCALE, 100)
            .putExtra(BatteryManager.EXTRA_PLUGGED, BatteryManager.BATTERY_PLUGGED_AC)
        app.sendStickyBroadcast(battery)
    }

    /** Starts a collector and returns its URL. */
    private fun collect(store: File, config: String): String {
        val port = ServerSocket(0).use { it.localPort }
        val file = File(store, "remote.json").apply { writeText(config) }
        collector = ProcessBuilder(program, "collect", "--listen", "127.0.0.1:$port", "--store", store.path, "--config", file.path)
            .redirectErrorStream(true).redirectOutput(File(store, "log")).start()
        val url = "http://127.0.0.1:$port"
        await("the collector") {
            try {
                URL("$url/healthz").readText().isNotEmpty()
            } catch (_: java.io.IOException) {
                false
            }
        }
        return url
    }

    private fun control(): JSONObject = Tracetee.health()?.let { JSONObject(it.json).optJSONObject("control") } ?: JSONObject()

    /** Waits for a condition. The agent's thread runs four times a second; Robolectric's main loop runs only when idled. */
    private fun await(what: String, isThere: () -> Boolean) {
        val end = System.nanoTime() + 30_000_000_000
        while (!isThere()) {
            assertTrue("$what did not come: ${Tracetee.health()}", System.nanoTime() < end)
            shadowOf(android.os.Looper.getMainLooper()).idle()
            Thread.sleep(20)
        }
    }

    class Checkout : Activity()

    private companion object {
        const val CONFIG = """{"schema": 1, "seq": 7, "upload": {"poll_s": 60},
            "budget": {"captures_per_hour": 100, "captures_per_day": 100},
            "windows": [{"id": "hand", "opens": "manual", "max_s": 60}]}"""
    }
}
