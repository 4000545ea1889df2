package dev.tracetee.sample

import android.app.Activity
import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import android.os.Process
import android.os.SystemClock
import dev.tracetee.Tracetee
import dev.tracetee.trace
import java.io.File
import java.io.IOException
import kotlin.concurrent.thread

/** Carries out the requests that `tracetee device-test` sends with `am broadcast`; the manifest admits only the shell. */
class DeviceTest : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) {
        val (run, number) = Pair(intent.getStringExtra("run"), intent.getIntExtra("n", 0))
        val pending = goAsync()
        thread(name = "device-test") {
            pending.setResult(Activity.RESULT_OK, act(context.applicationContext, run, number), null)
            pending.finish()
        }
    }

    private fun act(context: Context, run: String?, number: Int): String = when (run) {
        "port" -> { file(context).writeText(number.toString()); OK }
        "open" -> Tracetee.openWindow("test").error ?: OK
        "close" -> Tracetee.closeWindow("test").error ?: OK
        "markers" -> { repeat(number) { trace("device-test") { } }; OK }
        "late" -> LATE.filter { isLoadable(it) }.joinToString(" ")
        "health" -> Tracetee.health()?.json ?: "no agent"
        "upload" -> Tracetee.upload(context).toString()
        "work" -> { Work.begin(number); OK }
        "cost" -> Work.cost()
        "kill" -> { Process.killProcess(Process.myPid()); OK }
        else -> "cannot run $run"
    }

    private fun isLoadable(library: String) = try {
        System.loadLibrary(library)
        true
    } catch (_: UnsatisfiedLinkError) {
        false
    }

    /** Frames of an activity that have many sections, and the processor time that they take. */
    object Work : Runnable {
        var activity: JankActivity? = null
        private var until = 0L
        private var beganMs = 0L
        private var frames = 0

        fun begin(seconds: Int) {
            beganMs = Process.getElapsedCpuTime()
            frames = 0
            until = SystemClock.uptimeMillis() + seconds * 1000L
            activity?.status?.post(this)
        }

        override fun run() {
            repeat(SECTIONS) { trace("device-test") { } }
            frames++
            val view = activity?.status ?: return
            view.invalidate()
            if (SystemClock.uptimeMillis() < until) view.postOnAnimation(this)
        }

        fun cost() = "${Process.getElapsedCpuTime() - beganMs} $frames"
    }

    companion object {
        private const val OK = "ok"
        private const val SECTIONS = 100

        /** Public libraries of the platform that an app has not loaded at its start. */
        private val LATE = listOf("mediandk", "camera2ndk", "aaudio", "OpenSLES", "vulkan", "neuralnetworks")

        private fun file(context: Context) = File(context.filesDir, "device-test")

        /** Returns the port of the collector for this start, 0 for a start without the agent; null outside a test. */
        fun port(context: Context): Int? = try {
            file(context).readText().toIntOrNull()
        } catch (_: IOException) {
            null
        }
    }
}
