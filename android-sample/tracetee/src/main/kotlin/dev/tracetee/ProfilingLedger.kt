// Remembers across restarts which profiles were requested and their cost; all processes of the app share it.
package dev.tracetee

import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.RandomAccessFile
import org.json.JSONArray
import org.json.JSONObject

/** A limit on the costs in a period; [name] is the field of the configuration. */
internal class ProfilingLimit(val name: String, val withinMs: Long, val cost: Int)

private const val HOUR_MS = 3_600_000L

/** The platform's limits to one app (RateLimiter of the module com.android.profiling). */
internal val PLATFORM_LIMITS = listOf(
    ProfilingLimit("per_hour", HOUR_MS, 10),
    ProfilingLimit("per_day", 24 * HOUR_MS, 20),
    ProfilingLimit("per_week", 7 * 24 * HOUR_MS, 30),
)

/** A moment on both clocks: users and networks set the wall clock, and a boot resets the other one. */
internal class Moment(val boot: Long, val bootMs: Long, val realMs: Long) {
    /** The age in ms, by the rule of the agent's own timestamps: within a boot, only its clock counts. */
    fun ageMs(now: Moment): Long = when {
        boot == now.boot && bootMs <= now.bootMs -> now.bootMs - bootMs
        else -> maxOf(now.bootMs, now.realMs - realMs)
    }

    /** In the format of the spool's file names. */
    fun toText(): String = listOf(boot, bootMs, realMs).joinToString("-") { it.toString(16) }

    internal companion object {
        fun parse(text: String): Moment {
            val fields = text.split('-').map { it.toLong(16) }
            return Moment(fields[0], fields[1], fields[2])
        }
    }
}

/** A requested profile that has not arrived. */
internal class PendingProfile(val id: String, val label: String, val priority: Int, val at: Moment, val durationMs: Int)

/** The content of the ledger. */
internal class ProfilingState(
    val spent: MutableList<Pair<Moment, Int>> = ArrayList(),
    val pending: MutableList<PendingProfile> = ArrayList(),
    /** Events that are registered with the system, with the priority of their results. */
    val triggers: MutableMap<String, Int> = LinkedHashMap(),
    /** Profiles by outcome: `asked`, `kept`, `refused`, `late`, and the reasons of losses. */
    val counts: MutableMap<String, Long> = LinkedHashMap(),
) {
    fun count(outcome: String) {
        counts[outcome] = (counts[outcome] ?: 0) + 1
    }

    /** Returns why a profile of this cost must not be requested. */
    fun refusal(cost: Int, limits: List<ProfilingLimit>, now: Moment): String? {
        spent.removeAll { (at, _) -> at.ageMs(now) >= PLATFORM_LIMITS.last().withinMs }
        for (limit in limits) {
            val sum = spent.sumOf { (at, cost) -> if (at.ageMs(now) < limit.withinMs) cost else 0 }
            if (sum + cost > limit.cost) return "${limit.name}: $sum of ${limit.cost} are spent, $cost more are needed"
        }
        return null
    }

    fun toJson(): JSONObject = JSONObject()
        .put("spent", JSONArray(spent.map { (at, cost) -> JSONObject().put("at", at.toText()).put("cost", cost) }))
        .put(
            "pending",
            JSONArray(
                pending.map {
                    JSONObject().put("id", it.id).put("label", it.label).put("priority", it.priority).put("at", it.at.toText())
                        .put("duration_ms", it.durationMs)
                },
            ),
        )
        .put("triggers", JSONObject(triggers as Map<*, *>))
        .put("counts", JSONObject(counts as Map<*, *>))

    internal companion object {
        fun parse(text: String): ProfilingState {
            val json = JSONObject(text)
            val state = ProfilingState()
            objects(json, "spent").mapTo(state.spent) { Moment.parse(it.getString("at")) to it.getInt("cost") }
            objects(json, "pending").mapTo(state.pending) {
                val at = Moment.parse(it.getString("at"))
                PendingProfile(it.getString("id"), it.getString("label"), it.getInt("priority"), at, it.getInt("duration_ms"))
            }
            json.getJSONObject("triggers").run { keys().forEach { state.triggers[it] = getInt(it) } }
            json.getJSONObject("counts").run { keys().forEach { state.counts[it] = getLong(it) } }
            return state
        }

        private fun objects(json: JSONObject, name: String): List<JSONObject> {
            val array = json.getJSONArray(name)
            return List(array.length()) { array.getJSONObject(it) }
        }
    }
}

/** The file of the ledger in the agent's [directory]. */
internal class ProfilingLedger(private val directory: File, private val now: () -> Moment) {
    private val file = File(directory, "profiling.json")

    /** True if something was ever entered. */
    val exists: Boolean get() = file.exists()

    /** Reads the ledger. If it cannot be read, everything counts as spent now, because it may have been. */
    fun read(): ProfilingState = try {
        if (file.exists()) ProfilingState.parse(file.readText()) else ProfilingState()
    } catch (_: Exception) {
        ProfilingState(spent = mutableListOf(now() to PLATFORM_LIMITS.last().cost))
    }

    /** Changes the ledger under a lock that the app's processes share. After a kill, the file has the old or the new content. */
    @Throws(IOException::class)
    fun <T> change(call: (ProfilingState) -> T): T = RandomAccessFile(File(directory, "profiling.lock"), "rw").use { lock ->
        lock.channel.lock()
        val state = read()
        val before = state.toJson().toString()
        val result = call(state)
        val after = state.toJson().toString()
        if (after != before) {
            val temporary = File(directory, "profiling.json.tmp")
            FileOutputStream(temporary).use {
                it.write(after.toByteArray())
                it.fd.sync()
            }
            if (!temporary.renameTo(file)) throw IOException("cannot replace $file")
        }
        result
    }
}
