// The one file that names android.app.ApplicationExitInfo, which systems before API 30 do not have.
package dev.tracetee

import android.annotation.TargetApi
import android.app.ActivityManager
import android.app.ApplicationExitInfo
import android.content.Context
import java.io.InputStream

/** The end of a process. [dump] opens the stacks of an ANR or the tombstone of a native crash; there may be none. */
internal class ProcessExit(
    val reason: Int,
    val description: String,
    val status: Int,
    val importance: Int,
    val atMs: Long,
    val pid: Int,
    val process: String,
    val pssKb: Long,
    val rssKb: Long,
    val summary: ByteArray?,
    val dump: () -> InputStream?,
)

/** The system's records of ended processes. Load this class on API 30 and later only; the calls ask another process. */
@TargetApi(30)
internal class PlatformExits(private val manager: ActivityManager, private val packageName: String) {
    /** Returns the ends that the system remembers of all processes of the app, the newest first. */
    fun all(): List<ProcessExit> = manager.getHistoricalProcessExitReasons(packageName, 0, MOST).map(::plain)

    private fun plain(info: ApplicationExitInfo) = ProcessExit(
        info.reason, info.description.orEmpty(), info.status, info.importance, info.timestamp, info.pid, info.processName.orEmpty(),
        info.pss, info.rss, info.processStateSummary, info::getTraceInputStream,
    )

    /** Leaves the system [bytes] that come back with the end of this process. */
    fun summarize(bytes: ByteArray) = manager.setProcessStateSummary(bytes)

    internal companion object {
        /** The system keeps so many of an app. */
        private const val MOST = 16

        fun of(context: Context): PlatformExits? =
            (context.getSystemService(Context.ACTIVITY_SERVICE) as? ActivityManager)?.let { PlatformExits(it, context.packageName) }
    }
}
