// Runs on a device or an emulator: the agent records what the platform's own Trace writes, on the system of the device.
// .github/workflows/android.yml runs it; tests/android/run only compiles it, because it has no device.
package dev.tracetee

import androidx.test.platform.app.InstrumentationRegistry
import java.io.File
import kotlin.concurrent.thread
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Test

class OnDeviceTest {
    private val context = InstrumentationRegistry.getInstrumentation().targetContext
    private val file = File(context.filesDir, "on-device.ftrace")

    @After
    fun clean() {
        Tracetee.stopCapture()
        Tracetee.uninstall()
        file.delete()
    }

    @Test
    fun everySectionOfEveryThreadIsInTheTraceOnce() {
        val options = CaptureOptions.Builder()
            .setCategories(CaptureOptions.Category.APP)
            .setPassOn(CaptureOptions.PassOn.NEVER)
            .build()
        assertNull(Tracetee.startCapture(options).error)
        val threads = List(4) { n -> thread { repeat(500) { round -> trace("on-device-$n-$round") { } } } }
        threads.forEach { it.join() }
        assertNull(Tracetee.stopCapture().error)
        assertNull(Tracetee.dump(file).error)
        val begun = file.readLines().filter { "B|" in it && "on-device-" in it }.map { it.substringAfterLast('|') }
        val expected = List(4) { n -> List(500) { round -> "on-device-$n-$round" } }.flatten()
        assertEquals(expected.sorted(), begun.sorted())
    }

    @Test
    fun aManualWindowBecomesACapture() {
        val remote = """{"schema": 1, "seq": 1, "windows": [{"id": "hand", "opens": "manual", "cool_down_s": 0}]}"""
        assertNull(Tracetee.install(context, TraceteeConfig.Builder().setRemoteConfig(remote).build()).error)
        waitFor("the window") { Tracetee.openWindow("hand").isDone && Tracetee.isRecording }
        trace("in the window") { }
        assertNull(Tracetee.closeWindow("hand").error)
        val ready = File(context.noBackupFilesDir, "tracetee/spool/ready")
        waitFor("a capture") { ready.list().orEmpty().isNotEmpty() }
        assertNotNull(Tracetee.health())
    }

    private fun waitFor(what: String, reached: () -> Boolean) {
        repeat(300) {
            if (reached()) return
            Thread.sleep(100)
        }
        throw AssertionError("$what has not come in 30 s: ${Tracetee.health()}")
    }
}
