// The only file that uses android.app.ApplicationExitInfo, which systems before API 30 do not have.
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
    val anr: AnrFacts?,
    val dump: () -> InputStream?,
)

/** API 37's data on an ANR: a constant of `AnrTypes`, how long the system waited, and whether the user noticed it. */
internal class AnrFacts(private val type: Int, private val timeoutMs: Long, val isPerceptible: Boolean) {
    /** Returns the system's [description] with the type, and with the time in the words of input's ANRs where it has none. */
    fun addTo(description: String): String {
        val waited = if ("Waited " in description) "" else " Waited ${timeoutMs}ms"
        return "$description (${TYPES.getOrNull(type) ?: "type $type"})$waited".trim()
    }

    internal companion object {
        private val TYPES = listOf(
            "other", "input_dispatch_no_focused_window", "input_dispatch", "broadcast_of_intent", "start_foreground_service",
            "execute_service", "content_provider_not_responding", "app_triggered", "foreground_short_service_timeout",
            "job_service_start", "application_start",
        )

        /** Returns `getAnrInfo` of an `ApplicationExitInfo`; null before API 37, which the library is not compiled with, and for other reasons. */
        fun of(exit: Any): AnrFacts? = platform(null) {
            val info = exit.javaClass.getMethod("getAnrInfo").invoke(exit)
            fun get(name: String) = info.javaClass.getMethod(name).invoke(info)
            AnrFacts(get("getAnrType") as Int, get("getTimeoutMillis") as Long, get("isUserPerceptible") as Boolean)
        }
    }
}

/** The system's records of ended processes. Load this class only on API 30 and later; its calls query another process. */
@TargetApi(30)
internal class PlatformExits(private val manager: ActivityManager, private val packageName: String) {
    /** Returns the ends that the system remembers of all processes of the app, the newest first. */
    fun all(): List<ProcessExit> = manager.getHistoricalProcessExitReasons(packageName, 0, MOST).map(::plain)

    private fun plain(info: ApplicationExitInfo) = ProcessExit(
        info.reason, info.description.orEmpty(), info.status, info.importance, info.timestamp, info.pid, info.processName.orEmpty(),
        info.pss, info.rss, info.processStateSummary, AnrFacts.of(info), info::getTraceInputStream,
    )

    /** Stores [bytes] in the system, which returns them with the end of this process. */
    fun summarize(bytes: ByteArray) = manager.setProcessStateSummary(bytes)

    internal companion object {
        /** Maximum number that the system keeps for an app. */
        private const val MOST = 16

        fun of(context: Context): PlatformExits? =
            (context.getSystemService(Context.ACTIVITY_SERVICE) as? ActivityManager)?.let { PlatformExits(it, context.packageName) }
    }
}
