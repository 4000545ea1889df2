// Registers the tracer with androidx.tracing 2, which takes one a process.
package dev.tracetee.androidx

import android.content.ComponentName
import android.content.Context
import android.content.pm.PackageManager
import android.util.Log
import androidx.tracing.AbstractTraceDriver
import androidx.tracing.AbstractTraceSink
import androidx.tracing.DelicateTracingApi
import androidx.tracing.PooledTracePacketArray
import androidx.tracing.Tracer
import androidx.tracing.wire.TraceDriver
import androidx.tracing.wire.TraceSink
import dev.tracetee.Outcome

/**
 * Creates the driver for `Application`s, or registers the tracer if there is no `androidx.tracing:tracing-wire`.
 *
 * ```
 * class App : Application(), AbstractTraceDriver.Factory {
 *     override fun create() = TraceteeTracing.driver(this)
 * }
 * ```
 */
public object TraceteeTracing {
    private const val PROFILER = "androidx.tracing.profiler.ConnectedProfilerTracingEnabledReceiver"

    /**
     * Returns a driver whose tracer records into the agent's captures. If Android Studio or a benchmark has enabled tracing
     * of this app, the wire driver also gets the events, as it does without this library. (If tracing is enabled while the
     * app runs, this takes effect at the app's next start.)
     */
    @JvmStatic
    public fun driver(context: Context): AbstractTraceDriver =
        TraceteeDriver(if (isProfiled(context)) wireDriver(context) else null)

    /**
     * Returns a driver whose tracer records into the agent's captures and passes events on to [delegate]: those whose
     * category its `isCategoryEnabled` accepts. The default check of the wire driver is true while a capture has the tag
     * `app` on; give it another check.
     */
    @JvmStatic
    public fun driver(@Suppress("UNUSED_PARAMETER") context: Context, delegate: AbstractTraceDriver): AbstractTraceDriver =
        TraceteeDriver(delegate)

    /**
     * Registers a [TraceteeTracer] as `Tracer.global`, for an app without `androidx.tracing:tracing-wire`. A second call
     * does nothing and succeeds.
     *
     * @return an error if the app has registered another tracer, which stays registered
     */
    @OptIn(DelicateTracingApi::class)
    @JvmStatic
    @Synchronized
    public fun install(): Outcome {
        if (Tracer.global is TraceteeTracer) return Outcome.DONE
        return try {
            Tracer.setGlobalTracer(TraceteeTracer())
            Outcome.DONE
        } catch (_: IllegalStateException) {
            val name = Tracer.global.javaClass.name
            val text = "cannot register TraceteeTracer: the app has registered $name. Pass that to TraceteeTracer(delegate), " +
                "or return TraceteeTracing.driver(this, delegate) from AbstractTraceDriver.Factory.create"
            try {
                Log.w("tracetee", text)
            } catch (_: RuntimeException) {
                // A unit test's android.jar.
            }
            Outcome.failed(text)
        }
    }

    /** True if the connected profiler of `tracing-wire` was left switched on: the setting survives the process. */
    private fun isProfiled(context: Context): Boolean = try {
        context.packageManager.getComponentEnabledSetting(ComponentName(context, PROFILER)) ==
            PackageManager.COMPONENT_ENABLED_STATE_ENABLED
    } catch (_: RuntimeException) {
        // The component does not exist.
        false
    }

    private fun wireDriver(context: Context): AbstractTraceDriver? = try {
        TraceDriver(context, TraceSink(context), isCategoryEnabled = { true })
    } catch (_: LinkageError) {
        // The app has no tracing-wire.
        null
    }
}

/** The driver that gives androidx.tracing its tracer; passes flush and close to the delegate. */
private class TraceteeDriver(private val delegate: AbstractTraceDriver?) : AbstractTraceDriver(delegate?.sink ?: NoSink) {
    override val tracer: Tracer = TraceteeTracer(delegate?.tracer)

    override fun flush() {
        delegate?.flush()
    }

    override fun close() {
        delegate?.close()
    }
}

/** The sink of a driver without a delegate. The tracer writes into the agent's recorder, so nothing reaches it. */
@OptIn(DelicateTracingApi::class)
private object NoSink : AbstractTraceSink() {
    override fun enqueue(pooledPacketArray: PooledTracePacketArray) = Unit

    override fun onDroppedTraceEvent() = Unit

    override fun flush() = Unit

    override fun close() = Unit
}
