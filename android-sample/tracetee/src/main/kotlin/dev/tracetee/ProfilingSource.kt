// The platform's profiling in addition to our captures: requests profiles, matches results, and accounts for missing ones.
package dev.tracetee

import java.io.File
import java.io.IOException
import java.util.UUID
import java.util.concurrent.Executor
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/**
 * Requests profiles from the platform as configured. Its methods run on one thread.
 *
 * A request is entered in the ledger before it is made, so that a killed process leaves a note of it. A later process
 * receives the result of a dead process within seven days; a result that has not arrived by then is a loss.
 */
internal class ProfilingSource(
    private val directory: File,
    private val installId: String,
    private val device: (String) -> ProfilingDevice,
    private val worker: Executor,
    private val now: () -> Moment,
    private val profiler: () -> PlatformProfiler?,
) {
    private val ledger = ProfilingLedger(directory, now)
    private val spool = ProfilingSpool(File(directory, "spool"))
    private var platform: PlatformProfiler? = null

    /** Events that this process has registered, with their periods; null before that, because the system remembers those of earlier processes. */
    private var registered: Map<String, Int>? = null

    /** Events that the system does not know. */
    @Volatile
    private var unknown = emptySet<String>()

    @Volatile
    private var off: String? = "not started"

    @Volatile
    private var lastRefused: String? = null

    /** Applies the configuration, and reports overdue results as lost. */
    fun refresh() {
        val rules = rules()
        off = rules.off
        if (!ledger.exists && rules.isEmpty) return
        connect() ?: return
        ledger.change { state ->
            for (one in state.pending.filter { it.at.ageMs(now()) > MAX_WAIT_MS }) lose(state, one, "never_came")
        }
        val wanted = rules.triggers.associate { it.event to it.periodHours }
        if (wanted == registered && unknown.isEmpty()) return
        val platform = platform ?: return
        val known = rules.triggers.filter { platform.addTrigger(it.event, it.periodHours) }
        unknown = wanted.keys - known.map { it.event }.toSet()
        ledger.change { state ->
            for (event in state.triggers.keys - wanted.keys) platform.removeTrigger(event)
            state.triggers.clear()
            known.forEach { state.triggers[it.event] = it.priority }
        }
        registered = wanted
    }

    /** Requests the window's profile, if it has one and the limits allow it. */
    fun captureBegun(window: String, captureId: String) {
        val rules = rules()
        off = rules.off
        val request = rules.requests.firstOrNull { window in it.windows } ?: return
        val platform = connect() ?: return
        val now = now()
        val profile = PendingProfile(
            profileId(captureId), ProfilingSpool.label(request.kind.key, window), request.priority, now, request.durationMs,
        )
        val refusal = ledger.change { state ->
            val running = state.pending.firstOrNull { it.at.ageMs(now) < it.durationMs }
            val refusal = running?.let { "${it.label} is being recorded" } ?: state.refusal(COST_OF_REQUEST, rules.limits, now)
            if (refusal == null) {
                state.spent += now to COST_OF_REQUEST
                state.pending += profile
                state.count("asked")
            } else {
                state.count("refused")
            }
            refusal
        }
        lastRefused = refusal?.let { "$window: $it" } ?: lastRefused
        if (refusal != null) return
        try {
            platform.request(request, PREFIX + profile.id)
        } catch (error: RuntimeException) {
            warn("profiling: $error")
            ledger.change { state -> lose(state, profile, "platform_threw") }
        }
    }

    /** Takes a result: ours by its tag, or of an event that we registered. Other results belong to the app. */
    fun result(result: PlatformResult) {
        val isOurs = result.tag?.startsWith(PREFIX) == true
        ledger.change { state ->
            val pending = state.pending.firstOrNull { isOurs && PREFIX + it.id == result.tag }
            val one = pending ?: result.event?.takeIf { !isOurs }?.let { event ->
                val priority = state.triggers[event] ?: return@change
                state.spent += now() to COST_OF_TRIGGER
                val kind = if (event == "oom") ProfileKind.JAVA_HEAP_DUMP else ProfileKind.SYSTEM_TRACE
                PendingProfile(profileId(UUID.randomUUID().toString()), ProfilingSpool.label(kind.key, event), priority, now(), 0)
            }
            val file = result.path?.let(::File)
            if (one != null) {
                take(state, one, result.error, file)
            } else if (isOurs) {
                // Reported as lost already, or delivered twice.
                state.count("late")
            }
            // The app may also want the file of an event; the platform deletes it later.
            if (isOurs) file?.delete()
        }
    }

    private fun take(state: ProfilingState, one: PendingProfile, error: Int, file: File?) {
        if (!spool.hasConsent) {
            state.pending.remove(one)
            return
        }
        if (error != 0 || file == null) return lose(state, one, "platform_" + (ERRORS.getOrNull(error) ?: "error_$error"))
        try {
            spool.put(file, one.id, one.label, one.priority, one.at, rules().maxBytes)
            state.pending.remove(one)
            state.count("kept")
        } catch (reason: NotKept) {
            lose(state, one, reason.reason)
        } catch (error: IOException) {
            warn("profiling: $error")
            lose(state, one, "not_written")
        }
    }

    private fun lose(state: ProfilingState, one: PendingProfile, reason: String) {
        state.pending.removeAll { it.id == one.id }
        state.count(reason)
        if (spool.hasConsent) spool.lose(one.id, one.label, reason)
    }

    /** Registers for results, once. A process must register early, because the results of dead processes arrive then. */
    private fun connect(): PlatformProfiler? = platform ?: profiler()?.also { found ->
        found.register(worker) { result -> Profiling.safely { result(result) } }
        platform = found
    }

    private fun rules(): ProfilingRules {
        val file = File(directory, "config.json")
        if (!file.exists()) return ProfilingRules("there is no configuration")
        if (!spool.hasConsent) return ProfilingRules("the user has not consented")
        val id = installId.ifEmpty { File(directory, "install_id").takeIf(File::exists)?.readText() ?: "" }
        return try {
            ProfilingRules.read(JSONObject(file.readText()), device(id), now().realMs)
        } catch (error: JSONException) {
            ProfilingRules("the configuration: ${error.message}")
        }
    }

    /** Reports the requests and their outcomes. Called on any thread. */
    fun health(): JSONObject {
        val state = ledger.read()
        return JSONObject()
            .putOpt("off", off)
            .put("pending", state.pending.size)
            .put("counts", JSONObject(state.counts as Map<*, *>))
            .put("triggers", JSONArray(state.triggers.keys))
            .put("unknown_triggers", JSONArray(unknown))
            .putOpt("last_refused", lastRefused)
    }

    internal companion object {
        /** Precedes the profile's id in the tag of a request. */
        const val PREFIX: String = "tracetee-"
        const val MAX_WAIT_MS: Long = 7 * 24 * 3_600_000L
        const val COST_OF_REQUEST: Int = 10
        const val COST_OF_TRIGGER: Int = 5

        /** The platform's errors, by number; a result without error and without file is `error_0`. */
        private val ERRORS = listOf(
            null, "rate_limit_system", "rate_limit_process", "in_progress", "executing", "post_processing", "no_disk_space",
            "invalid_request", "unknown",
        )

        /** The id of the profile that belongs to a capture: the same bits with version 8, so that each id determines the other. */
        fun profileId(captureId: String): String = captureId.replaceRange(14, 15, "8")
    }
}
