package dev.tracetee

import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assume.assumeFalse
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

/** Tests an app whose APK lacks the library for its processor: nothing throws, and the reason is reported. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [34], manifest = Config.NONE)
class WithoutAgentTest {
    @Test
    fun theAppRunsOn() {
        assumeFalse("skipped: libtracetee.so is here", Native.load())
        val app = RuntimeEnvironment.getApplication()
        assertFailed("libtracetee.so", Tracetee.install(app, TraceteeConfig.Builder().setCollectorUrl("https://traces.example.com").build()))
        assertFalse(Tracetee.isInstalled || Tracetee.isRecording)
        for (failed in listOf(Tracetee.startCapture(), Tracetee.stopCapture(), Tracetee.trigger("x"))) assertFailed("no tracetee in java.library.path", failed)
        assertFailed("the agent is not installed", Tracetee.uninstall())
        assertNull(Tracetee.health())
        assertEquals("the agent is not installed", (Tracetee.upload(app) as UploadResult.Failed).reason)
        Tracetee.setScreen("x")
        assertEquals(42, trace("x") { trace({ "y" }) { 42 } })
        Markers.beginAsync("a", 1)
        Markers.endAsync("a", 1)
        Markers.beginTrack("t", "a", 1)
        Markers.endTrack("t", "a", 1)
        Markers.counter("c", 1)
        Markers.instant("i")
        Section.begin("s").close()
    }
}
