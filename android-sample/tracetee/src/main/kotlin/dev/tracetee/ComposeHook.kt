package dev.tracetee

import java.lang.reflect.InvocationHandler
import java.lang.reflect.InvocationTargetException
import java.lang.reflect.Method
import java.lang.reflect.Proxy

/**
 * Makes each composable function of Jetpack Compose a section while a capture is recording: `com.example.Feed
 * (Feed.kt:12)`.
 *
 * For Compose before 1.13. From 1.13 on, depend on `androidx.compose.runtime:runtime-tracing` and
 * `dev.tracetee:androidx-tracing`, which also trace the reasons for recompositions. This calls `Composer.setTracer` by
 * reflection, because it is internal to Compose. A tracer that is already set, such as that of `runtime-tracing`, still gets
 * all calls.
 */
public object ComposeHook {
    private const val TRACER = "androidx.compose.runtime.CompositionTracer"
    private const val WHAT = "trace Compose"

    /**
     * Sets the tracer. Call it before the first composition, after androidx.startup has initialized `runtime-tracing`:
     * in `Application.onCreate`. A second call does nothing and succeeds.
     *
     * @return an error if the app has no Compose, or one without `Composer.setTracer`: compositions then do not become
     * sections
     */
    @JvmStatic
    @Synchronized
    public fun attach(): Outcome = try {
        val tracer = Class.forName(TRACER)
        val companion = Class.forName("androidx.compose.runtime.Composer").getField("Companion").get(null)!!
        val before = current()
        if (before == null || !Proxy.isProxyClass(before.javaClass) || Proxy.getInvocationHandler(before) !is Calls) {
            val ours = Proxy.newProxyInstance(tracer.classLoader, arrayOf(tracer), Calls(before, tracer.getMethod("isTraceInProgress")))
            companion.javaClass.getMethod("setTracer", tracer).invoke(companion, ours)
        }
        Outcome.DONE
    } catch (_: ClassNotFoundException) {
        Tracetee.failed(WHAT, "the app has no androidx.compose.runtime")
    } catch (error: ReflectiveOperationException) {
        val use = "use Compose 1.13 with androidx.compose.runtime:runtime-tracing and dev.tracetee:androidx-tracing"
        Tracetee.failed(WHAT, "this version of Compose has no Composer.setTracer ($error): $use")
    } catch (error: RuntimeException) {
        Tracetee.failed(WHAT, "$error")
    } catch (error: LinkageError) {
        Tracetee.failed(WHAT, "$error")
    }

    /** Returns the tracer that is set; null if none is, or if this version of Compose keeps it elsewhere. */
    private fun current(): Any? = try {
        val field = Class.forName("androidx.compose.runtime.ComposerKt").getDeclaredField("compositionTracer")
        field.isAccessible = true
        field.get(null)
    } catch (_: ReflectiveOperationException) {
        null
    }

    /** The tracer's methods; one that another version of Compose adds does nothing. */
    private class Calls(private val before: Any?, private val asks: Method) : InvocationHandler {
        override fun invoke(proxy: Any, method: Method, arguments: Array<Any?>?): Any? = when (method.name) {
            "isTraceInProgress" -> Tracetee.isRecording || isWanted()
            "traceEventStart" -> {
                val info = arguments?.lastOrNull() as? String
                if (info != null && Tracetee.isRecording) Event.get().category("androidx.compose").beginSection(info)
                if (isWanted()) pass(method, arguments) else null
            }
            "traceEventEnd" -> {
                if (Tracetee.isRecording) Event.get().endSection()
                if (isWanted()) pass(method, arguments) else null
            }
            "equals" -> arguments?.firstOrNull() === proxy
            "hashCode" -> System.identityHashCode(proxy)
            "toString" -> "tracetee's CompositionTracer"
            else -> null
        }

        /** True if the tracer of before takes calls now. */
        private fun isWanted(): Boolean = before != null && pass(asks, null) == true

        /** Calls the tracer of before; its exceptions are as they were. */
        private fun pass(method: Method, arguments: Array<Any?>?): Any? = try {
            method.invoke(before, *arguments.orEmpty())
        } catch (error: InvocationTargetException) {
            throw error.targetException
        }
    }
}
