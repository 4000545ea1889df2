// Writes the device's state (heat, power, refresh rate) as counters and instants of a trace.
package dev.tracetee

import android.content.Context
import android.os.Build
import android.os.PowerManager
import android.os.SystemClock
import java.io.File
import java.io.IOException

/**
 * Writes thermal status and headroom, power save, and the display's refresh rate: counters `device: …`, with the first frame of a
 * capture and once in [EVERY_MS]. Only the thread that takes the frames' reports uses it, because the calls ask other processes.
 */
internal class DeviceContext(
    context: Context,
    private val tasks: File = File("/proc/self/task"),
    private val nowMs: () -> Long = SystemClock::elapsedRealtime,
) {
    private val power = context.getSystemService(Context.POWER_SERVICE) as? PowerManager
    private var lastMs: Long? = null

    /** Writes the values if a capture [isRecording] and the last ones are [EVERY_MS] old. */
    fun writeIfDue(isRecording: Boolean, refreshHz: Double) {
        val lastMs = lastMs
        if (!isRecording) {
            this.lastMs = null
        } else if (lastMs == null || nowMs() - lastMs >= EVERY_MS) {
            this.lastMs = nowMs()
            platform(Unit) { write(refreshHz) }
            if (lastMs == null) writeCpusets()
        }
    }

    private fun write(refreshHz: Double) {
        counter("refresh Hz", refreshHz)
        val power = power ?: return
        counter("power save", if (power.isPowerSaveMode) 1.0 else 0.0)
        if (Build.VERSION.SDK_INT >= 29) counter("thermal status", power.currentThermalStatus.toDouble())
        // The headroom in a second. A system returns NaN if it does not know it, or is asked more often.
        if (Build.VERSION.SDK_INT >= 30) power.getThermalHeadroom(1).toDouble().let { if (it.isFinite()) counter("thermal headroom", it) }
    }

    /** Writes the process's threads by cpuset, as systrace's cgroup agent does: an app may read only those of its own threads. */
    private fun writeCpusets() {
        val sets = tasks.list().orEmpty().sorted().groupBy(::cpusetOf) - null
        if (sets.isEmpty()) return
        val event = Event.get().category(CATEGORY)
        // The room for details is limited: sets of few threads say more.
        for ((set, threads) in sets.entries.sortedBy { it.value.size }) event.arg(set!!, threads.joinToString(" "))
        event.instant("device: cpusets")
    }

    private fun cpusetOf(thread: String): String? = try {
        File(tasks, "$thread/cgroup").readLines().firstOrNull { ":cpuset:" in it }?.substringAfter(":cpuset:")
    } catch (_: IOException) {
        null // The thread has ended.
    }

    private fun counter(name: String, value: Double) = Event.get().category(CATEGORY).counter("device: $name", value)

    internal companion object {
        private const val CATEGORY = "tracetee.device"
        private const val EVERY_MS = 10_000L

        /** Marks a level of `onTrimMemory`. */
        fun trim(level: Int) {
            if (Tracetee.isRecording) Event.get().category(CATEGORY).arg("level", level.toLong()).instant("device: memory trim")
        }
    }
}
