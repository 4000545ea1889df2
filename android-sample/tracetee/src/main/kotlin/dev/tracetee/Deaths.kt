// Connects an app's process with the system's records of how processes end.
package dev.tracetee

import android.content.Context
import android.os.Build
import android.os.Process
import android.os.SystemClock
import java.io.File
import java.util.Random
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import org.json.JSONObject

/**
 * Stores a [StateSummary] in the system when the screen has changed, at most every five seconds, and reports the ends of
 * earlier processes a second after the start; needs API 30. A separate thread does all work, and ends when there is none.
 */
internal object Deaths {
    private const val FIRST_API = 30

    /** The start of an app has the processor for itself. */
    private const val LOOK_MS = 1_000L
    private const val EVERY_MS = 5_000L

    /** One screen is hidden before the next one appears. */
    private const val SETTLE_MS = 500L

    private val worker = ScheduledThreadPoolExecutor(1) { work ->
        val inBackground = Runnable {
            platform(Unit) { Process.setThreadPriority(Process.THREAD_PRIORITY_BACKGROUND) }
            work.run()
        }
        Thread(inBackground, "tracetee-deaths").apply { isDaemon = true }
    }.apply {
        setKeepAliveTime(10, TimeUnit.SECONDS)
        allowCoreThreadTimeOut(true)
    }

    /** Identifies this process. Not of a generator that processes share because they were forked with it. */
    private val run: Long = platform(0L) {
        Random(SystemClock.elapsedRealtimeNanos() xor (System.currentTimeMillis() shl 20) xor (Process.myPid().toLong() shl 44)).nextLong()
    }

    @Volatile
    private var screen = ""

    @Volatile
    private var isShown = false

    /** The last vsync that a frame had, a time of `System.nanoTime`; 0 while none is known. */
    @Volatile
    var vsyncNs = 0L

    @Volatile
    private var reports: DeathReports? = null
    private val isDue = AtomicBoolean()

    // Only the worker uses these.
    private var exits: PlatformExits? = null
    private var versionCode = 0L

    /** The summary that the system has: screen, and whether it is shown. */
    private var left: Pair<String, Boolean>? = null
    private var leftMs = 0L

    /** Adds the id of this process to the agent's settings. The agent waits for the report then. */
    fun addTo(settings: JSONObject) {
        if (Build.VERSION.SDK_INT >= FIRST_API) settings.put("run", DeathReports.runText(run))
    }

    /** Begins with the settings that the agent was installed with. */
    fun start(context: Context, settings: JSONObject) {
        if (Build.VERSION.SDK_INT < FIRST_API) return
        later(LOOK_MS) {
            val platform = PlatformExits.of(context) ?: return@later
            val code = settings.getLong("version_code")
            val device = { id: String -> ProfilingDevice(id, code, Build.VERSION.SDK_INT) }
            val sinceMs = context.packageManager.getPackageInfo(context.packageName, 0).lastUpdateTime
            val found = DeathReports(
                File(settings.getString("directory")), settings.optString("install_id"), device, code to sinceMs, Native::exits, Profiling::now,
            )
            val all = platform.all()
            found.report(all)
            versionCode = code
            left = null
            // Another library leaves its own summaries, which ours would replace.
            val process = ProcessName.of(context)
            val isTaken = all.any { it.process == process && it.summary?.isNotEmpty() == true && StateSummary.read(it.summary) == null }
            exits = platform.takeIf { !isTaken }
            reports = found
            summarize()
        }
    }

    fun stop() {
        if (Build.VERSION.SDK_INT >= FIRST_API) reports = null
    }

    /** The configuration may have changed. */
    fun refresh() {
        if (reports != null) later(0) { summarize() }
    }

    /** The app shows this screen, or, with null, none. Called on the app's threads. */
    fun screen(name: String?, isShown: Boolean) {
        screen = name ?: screen
        this.isShown = isShown
        if (reports == null || isDue.getAndSet(true)) return
        val passedMs = SystemClock.elapsedRealtime() - leftMs
        later((EVERY_MS - passedMs).coerceIn(SETTLE_MS, EVERY_MS)) {
            isDue.set(false)
            summarize()
        }
    }

    private fun summarize() {
        val rules = reports?.rules() ?: return
        val state = (if (rules.hasNames) screen else "") to isShown
        if (!rules.isOn || state == left) return
        val vsync = if (vsyncNs == 0L) 0 else Native.nowNs() - (System.nanoTime() - vsyncNs)
        val start = Process.getStartElapsedRealtime()
        exits?.summarize(StateSummary(run, start, vsync, versionCode, state.second, state.first).toBytes())
        left = state
        leftMs = SystemClock.elapsedRealtime()
    }

    /** Adds the member `deaths`, the ends of processes by reason, to a health report. */
    fun addTo(report: String): String {
        val counts = platform(null) { reports?.counts() } ?: return report
        return JSONObject(report).put("deaths", counts).toString()
    }

    private fun later(afterMs: Long, call: () -> Unit) = platform(Unit) {
        worker.schedule({ Profiling.safely(call) }, afterMs, TimeUnit.MILLISECONDS)
    }
}
