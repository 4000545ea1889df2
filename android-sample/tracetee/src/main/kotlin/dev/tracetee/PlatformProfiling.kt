// The one file that calls android.os.ProfilingManager, which systems before API 35 do not have.
package dev.tracetee

import android.annotation.TargetApi
import android.content.Context
import android.os.Build
import android.os.Bundle
import android.os.ProfilingManager
import android.os.ProfilingResult
import java.util.Locale
import java.util.concurrent.Executor
import java.util.function.Consumer

/** A result of the platform. */
internal class PlatformResult(val error: Int, val path: String?, val tag: String?, val event: String?)

/** Takes requests for profiles. [PlatformProfiling] is the system's; no class of API 35 is named here. */
internal interface PlatformProfiler {
    /** Passes all results for this app to [listener], including those of dead processes. */
    fun register(executor: Executor, listener: (PlatformResult) -> Unit)

    /** Requests a profile. Throws the platform's exceptions. */
    fun request(request: ProfilingRequest, tag: String)

    /** Registers an event. Returns false if the system does not know it. */
    fun addTrigger(event: String, periodHours: Int): Boolean

    /** Takes back what [addTrigger] has registered. */
    fun removeTrigger(event: String)
}

/** The system's service. Load this class on API 35 and later only. */
@TargetApi(35)
internal class PlatformProfiling(private val manager: ProfilingManager) : PlatformProfiler {
    override fun register(executor: Executor, listener: (PlatformResult) -> Unit) {
        manager.registerForAllProfilingResults(executor, Consumer { listener(plain(it)) })
    }

    private fun plain(result: ProfilingResult) =
        PlatformResult(result.errorCode, result.resultFilePath, result.tag, eventOf(result))

    override fun request(request: ProfilingRequest, tag: String) {
        val type = when (request.kind) {
            ProfileKind.STACK_SAMPLING -> ProfilingManager.PROFILING_TYPE_STACK_SAMPLING
            ProfileKind.SYSTEM_TRACE -> ProfilingManager.PROFILING_TYPE_SYSTEM_TRACE
            ProfileKind.JAVA_HEAP_DUMP -> ProfilingManager.PROFILING_TYPE_JAVA_HEAP_DUMP
            ProfileKind.HEAP_PROFILE -> ProfilingManager.PROFILING_TYPE_HEAP_PROFILE
        }
        // The names of androidx.core's builders; ProfilingManager's own constants of them are hidden.
        val parameters = Bundle()
        if (request.kind != ProfileKind.JAVA_HEAP_DUMP) parameters.putInt("KEY_DURATION_MS", request.durationMs)
        request.bufferKb?.let { parameters.putInt("KEY_SIZE_KB", it) }
        if (request.kind == ProfileKind.STACK_SAMPLING) request.frequencyHz?.let { parameters.putInt("KEY_FREQUENCY_HZ", it) }
        if (request.kind == ProfileKind.HEAP_PROFILE) {
            request.intervalBytes?.let { parameters.putLong("KEY_SAMPLING_INTERVAL_BYTES", it.toLong()) }
        }
        manager.requestProfiling(type, parameters, tag, null, null, null)
    }

    override fun addTrigger(event: String, periodHours: Int): Boolean = reflect(false) {
        val builder = Class.forName("android.os.ProfilingTrigger\$Builder")
        val int = Int::class.javaPrimitiveType
        val new = builder.getConstructor(int).newInstance(TRIGGER.getField(PREFIX + event.uppercase(Locale.ROOT)).getInt(null))
        builder.getMethod("setRateLimitingPeriodHours", int).invoke(new, periodHours)
        val trigger = builder.getMethod("build").invoke(new)
        ProfilingManager::class.java.getMethod("addProfilingTriggers", List::class.java).invoke(manager, listOf(trigger))
        true
    }

    override fun removeTrigger(event: String): Unit = reflect(Unit) {
        val code = TRIGGER.getField(PREFIX + event.uppercase(Locale.ROOT)).getInt(null)
        ProfilingManager::class.java.getMethod("removeProfilingTriggersByType", IntArray::class.java).invoke(manager, intArrayOf(code))
    }

    /** Returns the event that made the platform record [result]; null for a request's. */
    private fun eventOf(result: ProfilingResult): String? = reflect(null) {
        val code = ProfilingResult::class.java.getMethod("getTriggerType").invoke(result)
        val field = TRIGGER.fields.firstOrNull { it.name.startsWith(PREFIX) && it.getInt(null) == code }
        field?.name?.removePrefix(PREFIX)?.lowercase(Locale.ROOT)?.takeIf { it != "none" }
    }

    internal companion object {
        private const val PREFIX = "TRIGGER_TYPE_"

        /** Added in API 36, but each event may be missing separately. */
        private val TRIGGER by lazy { Class.forName("android.os.ProfilingTrigger") }

        /** Returns the system's service, or null if there is none. */
        fun ask(context: Context): PlatformProfiler? = context.getSystemService(ProfilingManager::class.java)?.let(::PlatformProfiling)

        private inline fun <T> reflect(otherwise: T, call: () -> T): T =
            if (Build.VERSION.SDK_INT < 36) otherwise else platform(otherwise, call)
    }
}
