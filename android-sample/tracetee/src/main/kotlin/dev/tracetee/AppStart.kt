// Writes the system's data on the app's start (ApplicationStartInfo of API 35) into a capture of the start.
package dev.tracetee

import android.app.ActivityManager
import android.app.ApplicationStartInfo
import android.content.Context
import android.os.Build
import java.util.concurrent.Executor

/** The start of this process. A separate thread asks the system, which takes a while, and then ends. */
internal object AppStart {
    private var isAsked = false

    /** Called once a second. A capture that records the start is open when the first second is over. */
    fun writeOnce(context: Context) {
        if (isAsked || Build.VERSION.SDK_INT < 35) return
        isAsked = true
        if (Native.recording || Native.ledger) platform(Unit) { listen(context) }
    }

    // The system calls when the first frame is drawn, or at once. It knows only later when the app is fully drawn.
    private fun listen(context: Context) {
        val manager = context.getSystemService(Context.ACTIVITY_SERVICE) as ActivityManager
        val thread = Executor { task -> Thread(task, "tracetee-start").apply { isDaemon = true }.start() }
        thread.execute {
            platform(Unit) { manager.addApplicationStartInfoCompletionListener(thread) { platform(Unit) { write(it, manager) } } }
        }
    }

    private fun write(first: ApplicationStartInfo, manager: ActivityManager) {
        var info = first
        for (look in 0..LOOKS) {
            val isFull = ApplicationStartInfo.START_TIMESTAMP_FULLY_DRAWN in info.startupTimestamps
            if (Tracetee.isRecording && (look == 0 || isFull)) write(info)
            if (isFull || look == LOOKS) return count(info)
            if (!Tracetee.isRecording && !Native.ledger) return
            Thread.sleep(EVERY_MS)
            info = manager.getHistoricalProcessStartReasons(1).firstOrNull { it.pid == first.pid } ?: return
        }
    }

    /** Counts the start. All of its times are on one clock. */
    fun count(info: ApplicationStartInfo, count: (Int, Long, Long) -> Unit = Native::countStart) {
        val times = info.startupTimestamps
        val launchNs = times[ApplicationStartInfo.START_TIMESTAMP_LAUNCH] ?: 0
        fun ms(key: Int) = times[key]?.let { if (launchNs in 1..it) (it - launchNs) / 1_000_000 else -1 } ?: -1
        val isDrawn = ms(ApplicationStartInfo.START_TIMESTAMP_FIRST_FRAME)
        // A service or a receiver: no user waits for a frame.
        if (info.startType in 1..3 && isDrawn >= 0) count(info.startType - 1, isDrawn, ms(ApplicationStartInfo.START_TIMESTAMP_FULLY_DRAWN))
    }

    private fun write(info: ApplicationStartInfo) = Event.get().category(CATEGORY).arg("start", text(info, BootTime())).instant("app start")

    /**
     * Returns the values as `vsync=- reason=6 type=1 …`. The redaction rules treat long numbers as private, except after
     * `vsync`, which a start does not have.
     */
    fun text(info: ApplicationStartInfo, clock: BootTime): String {
        clock.compare()
        val times = info.startupTimestamps
        val text = StringBuilder("vsync=- reason=").append(info.reason).append(" type=").append(info.startType)
            .append(" mode=").append(info.launchMode)
        for ((key, name) in NAMES) times[key]?.let { if (it > 0) text.append(' ').append(name).append("_ns=").append(clock.boot(it)) }
        times[ApplicationStartInfo.START_TIMESTAMP_LAUNCH]?.let { text.append(" mono_ns=").append(it) }
        return text.toString()
    }

    private const val CATEGORY = "tracetee.start"
    private const val EVERY_MS = 5_000L
    private const val LOOKS = 4

    private val NAMES = mapOf(
        ApplicationStartInfo.START_TIMESTAMP_LAUNCH to "launch",
        ApplicationStartInfo.START_TIMESTAMP_FORK to "fork",
        ApplicationStartInfo.START_TIMESTAMP_BIND_APPLICATION to "bind",
        ApplicationStartInfo.START_TIMESTAMP_APPLICATION_ONCREATE to "create",
        ApplicationStartInfo.START_TIMESTAMP_FIRST_FRAME to "first_frame",
        ApplicationStartInfo.START_TIMESTAMP_FULLY_DRAWN to "fully_drawn",
    )
}
