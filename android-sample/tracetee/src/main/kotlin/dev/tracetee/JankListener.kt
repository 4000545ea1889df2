// SurfaceControl.JankData of API 36: the compositor's verdict about each frame.
package dev.tracetee

import java.lang.reflect.InvocationHandler
import java.lang.reflect.Method
import java.lang.reflect.Proxy
import java.util.concurrent.Executor

/**
 * A registration with the compositor. It uses reflection on public classes and methods, so the library needs no SDK of that
 * level and an older system loads none of them. `OnJankDataListenerRegistration` has a `release()` and a `NONE` that apps
 * may not use: a compositor that refuses reports nothing.
 */
internal class JankListener private constructor(
    private val registration: Any,
    private val removeAfter: Method,
    private val batches: Batches,
) {
    /** A `JankData`. The times, of API 37.2, are -1 if they are unknown; without a time of the display the frame was not shown: 0. */
    class Data(val vsync: Long, val jank: Int, val allowedNs: Long, val totalNs: Long, val presentNs: Long, val expectedNs: Long)

    /** Ends the reports; batches in transit are dropped. */
    fun release() {
        batches.isOver = true
        platform(Unit) { removeAfter.invoke(registration, 0L) }
    }

    /** The listener's methods. Batches arrive on the executor's thread, in any order. */
    private class Batches(private val take: (Data) -> Unit) : InvocationHandler {
        @Volatile
        var isOver = false
        private val type = Class.forName("$CONTROL\$JankData")
        private val vsync = type.getMethod("getVsyncId")
        private val jank = type.getMethod("getJankType")
        private val scheduled = type.getMethod("getScheduledAppFrameTimeNanos")
        private val actual = type.getMethod("getActualAppFrameTimeNanos")
        private val present = platform(null) { type.getMethod("getPresentTimeNanos") }
        private val desired = platform(null) { type.getMethod("getDesiredPresentTimeNanos") }

        override fun invoke(proxy: Any, method: Method, arguments: Array<Any?>?): Any? = when (method.name) {
            "onJankDataAvailable" -> (arguments?.firstOrNull() as? List<*>)?.forEach { if (it != null) read(it) }
            "equals" -> arguments?.firstOrNull() === proxy
            "hashCode" -> System.identityHashCode(proxy)
            "toString" -> "tracetee's OnJankDataListener"
            else -> null
        }

        private fun read(one: Any): Unit = platform(Unit) {
            if (isOver) return
            fun ns(of: Method?) = of?.invoke(one) as Long? ?: -1
            take(Data(ns(vsync), jank.invoke(one) as Int, ns(scheduled), ns(actual), ns(present), ns(desired)))
        }
    }

    internal companion object {
        private const val CONTROL = "android.view.SurfaceControl"

        /**
         * Registers with [surface], on the main thread. Its class or interface [type] has the method:
         * `AttachedSurfaceControl` (API 36), `SurfaceView` and `SurfaceControl` (37.2).
         *
         * @return null if there is no such listener
         */
        fun register(type: Class<*>, surface: Any, executor: Executor, take: (Data) -> Unit): JankListener? = platform(null) {
            val listener = Class.forName("$CONTROL\$OnJankDataListener")
            val removeAfter = Class.forName("$CONTROL\$OnJankDataListenerRegistration").getMethod("removeAfter", Long::class.java)
            val register = type.getMethod("registerOnJankDataListener", Executor::class.java, listener)
            val batches = Batches(take)
            val ours = Proxy.newProxyInstance(listener.classLoader, arrayOf(listener), batches)
            register.invoke(surface, executor, ours)?.let { JankListener(it, removeAfter, batches) }
        }
    }
}
