package dev.tracetee

import android.app.Application
import android.os.Looper
import java.io.File
import org.json.JSONObject
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf

internal fun assertDone(outcome: Outcome) = assertNull(outcome.error)

internal fun assertFailed(why: String, outcome: Outcome) = assertTrue("$outcome", !outcome.isDone && why in outcome.error!!)

/** Opens and closes a window, and reads the capture. Needs what [AppTest] does. */
abstract class CaptureTest {
    protected val app: Application get() = RuntimeEnvironment.getApplication()
    private val program = System.getenv("TRACETEE")

    /** The last capture, as text. */
    protected val file: File = File.createTempFile("capture", ".ftrace")

    @After
    fun stop() {
        Tracetee.stopCapture()
        Tracetee.uninstall()
        file.delete()
    }

    protected fun install(config: TraceteeConfig.Builder, remote: String = REMOTE) {
        assumeTrue("skipped: TRACETEE is not set", program != null)
        assumeTrue("skipped: no libtracetee.so", Native.load())
        assertDone(Tracetee.install(app, config.setRemoteConfig(remote).build()))
    }

    protected fun open() = await("the window") { Tracetee.openWindow("hand").isDone && Tracetee.isRecording }

    /** Ends the capture and returns the verdicts in it, which are of these sources. */
    protected fun close(vararg sources: String): List<String> {
        assertDone(Tracetee.closeWindow("hand"))
        val ready = File(app.noBackupFilesDir, "tracetee/spool/ready")
        await("a capture") { ready.list().orEmpty().size == 1 }
        val capture = ready.listFiles()!!.single()
        file.writeBytes(ProcessBuilder(program, "convert", capture.path, "-o", "-", "--to", "ftrace").start().inputStream.readBytes())
        capture.delete()
        val lines = file.readLines()
        return lines.indices.filter { lines[it].endsWith("|frame verdict") }.map { place ->
            val details = JSONObject(lines[place - 1].removePrefix("#@ "))
            assertEquals("tracetee.frame", details.getString("cat"))
            assertTrue("$details", details.getJSONObject("args").getString("source") in sources)
            details.getJSONObject("args").getString("frame")
        }
    }

    protected fun await(what: String, isThere: () -> Boolean) {
        val end = System.nanoTime() + 30_000_000_000
        while (!isThere()) {
            assertTrue("$what did not come: ${Tracetee.health()}", System.nanoTime() < end)
            shadowOf(Looper.getMainLooper()).idle()
            Thread.sleep(20)
        }
    }

    protected companion object {
        const val REMOTE = """{"schema": 1, "seq": 7, "windows": [{"id": "hand", "opens": "manual", "cool_down_s": 0, "max_s": 60}]}"""
    }
}
