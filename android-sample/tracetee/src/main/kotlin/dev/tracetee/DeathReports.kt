// Reports to the agent how earlier processes of the app ended: docs/DEATHS.md.
package dev.tracetee

import java.io.ByteArrayOutputStream
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InputStream
import java.io.RandomAccessFile
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/** Rules of the configuration: whether reports, the system's dumps, and names that are not redacted are allowed. */
internal class DeathRules(val isOn: Boolean, val hasDumps: Boolean, val hasNames: Boolean)

/**
 * Reports each end of a process once, for all processes of the app, under their lock. A kill in between may lose a report,
 * but never duplicates one. Ends that exist at the first check are not reported: the app was reinstalled, or had no agent.
 */
internal class DeathReports(
    private val directory: File,
    private val installId: String,
    private val device: (String) -> ProfilingDevice,
    /** Version code of an app that was installed at that Unix time, ms. */
    private val installed: Pair<Long, Long>,
    private val agent: (String) -> String?,
    private val now: () -> Moment,
    private val dumpNs: () -> Long = System::nanoTime,
) {
    private val spool = ProfilingSpool(File(directory, "spool"))
    private val file = File(directory, "deaths.json")

    /** Reports the new ends among [all] ends that the system remembers. */
    @Throws(IOException::class)
    fun report(all: List<ProcessExit>) {
        directory.mkdirs()
        RandomAccessFile(File(directory, "deaths.lock"), "rw").use { lock ->
            lock.channel.lock()
            val fresh = take(all)
            val rules = rules()
            val exits = if (rules.isOn) fresh else emptyList()
            val ids = agent(JSONObject().put("exits", JSONArray(exits.map(::json))).toString())?.let(::JSONArray) ?: JSONArray()
            if (!rules.hasDumps) return
            exits.zip(List(ids.length()) { ids.optString(it) }).filter { (exit, id) -> id.isNotEmpty() && windowOfDump(exit) != null }
                .take(MOST_DUMPS).forEach { (exit, id) -> keepDump(exit, id) }
        }
    }

    /** Returns the ends that were not there before, counts them, and remembers all. */
    private fun take(all: List<ProcessExit>): List<ProcessExit> {
        val before = state()
        val seen = before?.optJSONArray("seen")?.let { seen -> List(seen.length()) { seen.getString(it) } } ?: emptyList()
        // Not the newest time, because clocks can be set back.
        val fresh = if (before == null) emptyList() else all.filter { key(it) !in seen }
        if (before != null && fresh.isEmpty()) return fresh
        val counts = before?.optJSONObject("counts") ?: JSONObject()
        for (exit in fresh) reasonOf(exit).let { counts.put(it, counts.optLong(it) + 1) }
        val next = JSONObject().put("seen", JSONArray((all.map(::key) + seen).distinct().take(MOST_SEEN))).put("counts", counts)
        val temporary = File(directory, "deaths.json.tmp")
        FileOutputStream(temporary).use {
            it.write(next.toString().toByteArray())
            it.fd.sync()
        }
        if (!temporary.renameTo(file)) throw IOException("cannot replace $file")
        return fresh
    }

    private fun state(): JSONObject? = try {
        if (file.exists()) JSONObject(file.readText()) else null
    } catch (_: JSONException) {
        null
    }

    /** Returns the ends so far, by reason, those that are only counted among them. */
    fun counts(): JSONObject? = state()?.optJSONObject("counts")

    /** Returns the rules that apply now. */
    fun rules(): DeathRules {
        val config = File(directory, "config.json")
        val id = installId.ifEmpty { File(directory, "install_id").takeIf(File::exists)?.readText() ?: "" }
        val document = try {
            if (config.exists() && spool.hasConsent) JSONObject(config.readText()) else null
        } catch (_: JSONException) {
            null
        }
        if (document == null || ProfilingRules.off(document, device(id), now().realMs) != null) return DeathRules(false, false, false)
        val section = document.optJSONObject("deaths") ?: JSONObject()
        val isOn = section.optBoolean("on", true)
        val isStrict = document.optJSONObject("redaction")?.optBoolean("strict") == true
        return DeathRules(isOn, isOn && !isStrict && section.optBoolean("dumps"), !isStrict)
    }

    private fun json(exit: ProcessExit): JSONObject {
        val summary = StateSummary.read(exit.summary)
        val reason = reasonOf(exit)
        val death = JSONObject().put("reason", reason)
            .put("description", exit.description.take(MOST_TEXT).let { exit.anr?.addTo(it) ?: it })
            .put("status", exit.status)
            .put("importance", exit.importance.coerceAtLeast(0))
            .put("visible", exit.importance in 1..MOST_VISIBLE || summary?.isShown == true || exit.anr?.isPerceptible == true)
            .put("at_ms", exit.atMs.coerceAtLeast(0))
            .put("pid", exit.pid.coerceAtLeast(0))
            .put("process", exit.process)
            .put("pss_kb", exit.pssKb.coerceAtLeast(0))
            .put("rss_kb", exit.rssKb.coerceAtLeast(0))
            .put("screen", summary?.screen.orEmpty())
            .put("last_vsync_ns", summary?.vsyncNs?.coerceAtLeast(0) ?: 0)
        val (code, sinceMs) = installed
        return JSONObject().put("death", death)
            .put("run", summary?.let { runText(it.run) }.orEmpty())
            .put("version_code", summary?.versionCode ?: if (exit.atMs > sinceMs) code else 0)
            .put("alone", reason !in QUIET)
    }

    private fun keepDump(exit: ProcessExit, id: String) {
        val profile = ProfilingSource.profileId(id)
        val label = ProfilingSpool.label(windowOfDump(exit) ?: return, reasonOf(exit))
        try {
            val bytes = exit.dump()?.use { read(it, reasonOf(exit) == "anr") } ?: return
            spool.put(profile, label, 0, now(), 2 * MOST_DUMP) { it.write(bytes) }
        } catch (reason: NotKept) {
            spool.lose(profile, label, reason.reason)
        } catch (error: IOException) {
            warn("the dump of a process: $error")
            spool.lose(profile, label, "not_written")
        }
    }

    /** Reads a dump, in parts. Text may be cut; a protobuf is whole or nothing. */
    private fun read(from: InputStream, isText: Boolean): ByteArray {
        val end = dumpNs() + DUMP_NS
        val read = ByteArrayOutputStream()
        val part = ByteArray(PART)
        while (read.size() < MOST_DUMP) {
            val count = from.read(part, 0, minOf(PART.toLong(), MOST_DUMP - read.size()).toInt())
            if (count < 0) return read.toByteArray()
            read.write(part, 0, count)
            if (dumpNs() > end) throw NotKept("slow")
        }
        return if (isText || from.read() < 0) read.toByteArray() else throw NotKept("size")
    }

    internal companion object {
        /** Reasons by the constants of ApplicationExitInfo; the last two were added in Android 17's second update. */
        private val REASONS = listOf(
            "unknown", "exit_self", "signaled", "low_memory", "crash", "crash_native", "anr", "initialization_failure",
            "permission_change", "excessive_resource_usage", "user_requested", "user_stopped", "dependency_died", "other", "freezer",
            "package_state_change", "package_updated", "memory_limiter", "anomaly",
        )

        /** Orderly ends, which are reported with a recorder only. */
        private val QUIET =
            setOf("exit_self", "user_requested", "user_stopped", "package_updated", "permission_change", "package_state_change")

        /** The words of Android 17's first releases, which have no constant for their limiter. */
        private const val LIMITER = "MemoryLimiter:AnonSwap"

        /** Play's definition of what users perceive: an activity is visible, or a foreground service runs. */
        private const val MOST_VISIBLE = 200
        private const val MOST_TEXT = 1000

        /** The system remembers 16, and may go back to older ones after a loss of power. */
        private const val MOST_SEEN = 64
        private const val MOST_DUMPS = 2
        private const val MOST_DUMP = 1L shl 20
        private const val PART = 64 * 1024
        private const val DUMP_NS = 5_000_000_000L

        fun reasonOf(exit: ProcessExit): String {
            val known = REASONS.getOrNull(exit.reason)
            return if ((known == null || known == "other") && LIMITER in exit.description) "memory_limiter" else known ?: "unknown_${exit.reason}"
        }

        private fun windowOfDump(exit: ProcessExit): String? = when (reasonOf(exit)) {
            "anr" -> "anr_dump"
            "crash_native" -> "tombstone"
            else -> null
        }

        private fun key(exit: ProcessExit) = "${exit.atMs}-${exit.pid}"

        /** The random id of a process, from the agent. */
        fun runText(run: Long): String = run.toULong().toString(16).padStart(16, '0')
    }
}
