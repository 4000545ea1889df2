// The section `profiling` of the remote configuration, as it applies to this device.
package dev.tracetee

import java.security.MessageDigest
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/** A kind of profile; [key] is the configuration's word for it. */
internal enum class ProfileKind(val key: String) {
    STACK_SAMPLING("stack_sampling"),
    SYSTEM_TRACE("system_trace"),
    JAVA_HEAP_DUMP("java_heap_dump"),
    HEAP_PROFILE("heap_profile"),
}

/** A profile to request with a window. The platform chooses a parameter that is null. */
internal class ProfilingRequest(
    val windows: List<String>,
    val kind: ProfileKind,
    val durationMs: Int,
    val bufferKb: Int?,
    val frequencyHz: Int?,
    val intervalBytes: Int?,
    val priority: Int,
)

/** A system event whose recording is requested; [event] is the configuration's word for it. */
internal class ProfilingTriggerRule(val event: String, val periodHours: Int, val priority: Int)

/** Facts about the device that decide which rules apply. */
internal class ProfilingDevice(val installId: String, val versionCode: Long, val api: Int)

/** The rules that apply here; none if [off] has a reason. */
internal class ProfilingRules(
    val off: String?,
    val requests: List<ProfilingRequest> = emptyList(),
    val triggers: List<ProfilingTriggerRule> = emptyList(),
    val limits: List<ProfilingLimit> = PLATFORM_LIMITS,
    val maxBytes: Long = MAX_BYTES,
) {
    val isEmpty: Boolean get() = requests.isEmpty() && triggers.isEmpty()

    internal companion object {
        private const val MAX_BYTES = 20_000_000L
        private const val MAX_RULES = 16
        private const val SALT = "profiling"

        /** Reads the document that is in force. The agent has checked its signature, and leaves this section to us. */
        fun read(document: JSONObject, device: ProfilingDevice, nowMs: Long): ProfilingRules {
            val section = document.optJSONObject("profiling") ?: return ProfilingRules("the configuration has no profiling")
            val isStrict = document.optJSONObject("redaction")?.optBoolean("strict") == true
            val off = off(document, device, nowMs) ?: if (isStrict) "redaction is strict" else null
            if (off != null) return ProfilingRules(off)
            return try {
                val budget = section.optJSONObject("budget") ?: JSONObject()
                ProfilingRules(
                    null,
                    each(section, "requests", device, ::request),
                    each(section, "triggers", device, ::trigger),
                    PLATFORM_LIMITS.map { ProfilingLimit(it.name, it.withinMs, budget.optInt(it.name, it.cost)) },
                    section.optLong("max_bytes", MAX_BYTES),
                )
            } catch (error: JSONException) {
                ProfilingRules("profiling: ${error.message}")
            }
        }

        /** Returns why nothing of the document applies here; null if it does. */
        fun off(document: JSONObject, device: ProfilingDevice, nowMs: Long): String? = when {
            document.optJSONObject("kill")?.optBoolean("on") == true -> "the kill switch is on"
            document.has("not_after") && document.getLong("not_after") < nowMs / 1000 -> "the configuration has expired"
            !isSampled(document, "", device) -> "not sampled"
            else -> null
        }

        private fun <T> each(section: JSONObject, name: String, device: ProfilingDevice, read: (JSONObject) -> T): List<T> {
            val rules = section.optJSONArray(name) ?: JSONArray()
            return List(minOf(rules.length(), MAX_RULES)) { rules.getJSONObject(it) }
                .filter { isSampled(it, SALT, device) && isMatched(it.optJSONObject("match"), device) }
                .map(read)
        }

        private fun request(json: JSONObject): ProfilingRequest {
            val windows = json.getJSONArray("windows")
            val word = json.getString("kind")
            return ProfilingRequest(
                List(windows.length()) { windows.getString(it) },
                ProfileKind.entries.firstOrNull { it.key == word } ?: throw JSONException("requests: unknown kind $word"),
                (json.optDouble("duration_s", 10.0).coerceIn(1.0, 600.0) * 1000).toInt(),
                number(json, "buffer_kb"),
                number(json, "frequency_hz"),
                number(json, "interval_bytes"),
                json.optInt("priority"),
            )
        }

        private fun trigger(json: JSONObject) =
            ProfilingTriggerRule(json.getString("on"), json.optInt("period_h", 24).coerceIn(0, 720), json.optInt("priority"))

        private fun number(json: JSONObject, name: String): Int? = if (json.isNull(name)) null else json.getInt(name)

        /** True for the devices that the agent's own sampling takes: by a hash of the installation and the salt. */
        private fun isSampled(rule: JSONObject, salt: String, device: ProfilingDevice): Boolean {
            val sampling = rule.optJSONObject("sampling") ?: return true
            val percent = sampling.optDouble("percent", 100.0)
            val salted = device.installId + if (sampling.isNull("salt")) salt else sampling.getString("salt")
            return percent >= 100 || bucket(salted) < percent
        }

        /** The place of a device, 0 to 100. */
        internal fun bucket(salted: String): Double {
            val digest = MessageDigest.getInstance("SHA-256").digest(salted.toByteArray())
            val number = digest.take(4).fold(0L) { sum, byte -> (sum shl 8) or (byte.toLong() and 0xff) }
            return number * 100.0 / 0xffff_ffffL
        }

        private fun isMatched(match: JSONObject?, device: ProfilingDevice): Boolean {
            fun isIn(name: String, value: Long): Boolean {
                val range = match?.optJSONArray(name) ?: return true
                return value in range.getLong(0)..range.getLong(1)
            }
            return isIn("version_code", device.versionCode) && isIn("api", device.api.toLong())
        }
    }
}
