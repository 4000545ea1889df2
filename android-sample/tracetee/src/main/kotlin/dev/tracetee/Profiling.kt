// Starts the platform's profiling in an app, and connects it to the agent and the health report.
package dev.tracetee

import android.content.Context
import android.os.Build
import java.io.File
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit
import org.json.JSONObject

/** Starts [ProfilingSource] in an app, on API 35 and later. All work is done on a separate thread. */
internal object Profiling {
    private const val FIRST_API = 35

    private val worker = ThreadPoolExecutor(0, 1, 10L, TimeUnit.SECONDS, LinkedBlockingQueue()) { Thread(it, "tracetee-profiling") }

    /** Kept across an uninstallation, because a second one would also get each result. Only the worker uses it. */
    private var first: ProfilingSource? = null

    @Volatile
    private var source: ProfilingSource? = null

    /** Begins with the settings that the agent was installed with. */
    fun start(context: Context, settings: JSONObject) {
        if (Build.VERSION.SDK_INT < FIRST_API) return
        later {
            val directory = File(settings.getString("directory"))
            val device = { id: String -> ProfilingDevice(id, settings.getLong("version_code"), Build.VERSION.SDK_INT) }
            val started = first
                ?: ProfilingSource(directory, settings.optString("install_id"), device, worker, ::now) { PlatformProfiling.ask(context) }
            first = started
            source = started
            started.refresh()
        }
    }

    fun stop() {
        if (Build.VERSION.SDK_INT >= FIRST_API) later { source = null }
    }

    /** The agent begins a capture. Called on its thread. */
    fun captureBegun(window: String, id: String) {
        source?.let { later { it.captureBegun(window, id) } }
    }

    /** The configuration may have changed. */
    fun refresh() {
        source?.let { later { it.refresh() } }
    }

    /** Adds the member `profiling` to a health report. */
    fun addTo(report: String): String {
        val health = source?.health() ?: return report
        return JSONObject(report).put("profiling", health).toString()
    }

    private fun later(call: () -> Unit) = worker.execute { safely(call) }

    internal inline fun safely(call: () -> Unit) {
        try {
            call()
        } catch (error: Exception) {
            warn("profiling: $error")
        } catch (error: LinkageError) {
            warn("profiling: $error")
        }
    }

    fun now(): Moment {
        val id = platform(0L) { File("/proc/sys/kernel/random/boot_id").readText().take(8).toLong(16) }
        return Moment(id, Native.nowNs() / 1_000_000, System.currentTimeMillis())
    }
}
