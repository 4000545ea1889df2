// The JSON that the agent reads and writes; tracetee.h documents it.
package dev.tracetee

import java.util.Locale
import org.json.JSONArray
import org.json.JSONObject

/** Writes the options as `tracetee_start` reads them. The agent chooses unset options. */
internal fun CaptureOptions.toJson(): JSONObject {
    val recorder = JSONObject()
        .put("mode", word(mode))
        .put("clock", word(clock))
        .putOpt("capacity_kb", capacityKb)
        .putOpt("block_kb", blockKb)
        .putOpt("directory", directory?.path)
        .putOpt("recover_to", recoverTo?.path)
        .putOpt("drain_cpu_percent", drainCpuPercent)
    val text = JSONObject()
        .put("precision", word(precision))
        .put("min_slice_us", minSliceUs.run { JSONObject().put("main", main).put("render", render).put("other", other) })
        .put("main_thread_only", mainThreadOnly)
        .put("redaction", JSONArray(redaction.map { it.toJson() }))
    return JSONObject()
        .putOpt("tags", categories?.let { JSONArray(it.map(::word)) })
        .put("pass_on", word(passOn))
        .put("recorder", recorder)
        .putOpt("output", output?.path)
        .put("fast_path", fastPath)
        .put("frame_counters", frameCounters)
        .putOpt("duration_ms", durationMs)
        .put("text", text)
}

private fun RedactionRule.toJson(): JSONObject {
    val json = JSONObject().put("pattern", pattern).putOpt("except", except)
    return when (val action = action) {
        RedactionRule.Action.Drop -> json.put("action", "drop")
        RedactionRule.Action.Hash -> json.put("action", "hash")
        is RedactionRule.Action.Replace ->
            json.put("action", JSONObject().put("replace", JSONObject().put("with", action.text)))
    }
}

private fun word(value: Enum<*>): String = value.name.lowercase(Locale.ROOT)

/** Reads the result of `tracetee_health`. */
internal fun healthReport(json: String): HealthReport {
    val report = JSONObject(json)
    return HealthReport(text(report, "headline"), report.optBoolean("recording"), json)
}

/** Reads the result of [Native.upload]. */
internal fun uploadResult(json: String): UploadResult {
    val report = JSONObject(json)
    text(report, "error")?.let { return UploadResult.Failed(it) }
    val delivered = report.optJSONArray("delivered") ?: JSONArray()
    return UploadResult.Done(
        List(delivered.length()) { delivered.optString(it) },
        report.optJSONObject("status")?.optLong("waiting") ?: 0,
        text(report, "held"),
        (report.optDouble("again_s", 0.0) * 1000).toLong(),
    )
}

/** Returns a member; null also for JSON's null, which `optString` would turn into a string. */
private fun text(json: JSONObject, name: String): String? = if (json.isNull(name)) null else json.optString(name)
