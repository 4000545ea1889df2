// SurfaceControl.JankData of API 36: the compositor's verdict about each frame.
package dev.tracetee

import java.lang.reflect.InvocationHandler
import java.lang.reflect.Method
import java.lang.reflect.Proxy
import java.util.concurrent.Executor

/**
 * A registration at the compositor. It uses reflection on public classes and methods, so that the library needs no SDK of that
 * level and an older system loads none of them.
 */
internal class JankListener private constructor(private val registration: Any, private val release: Method) {
    /** A `JankData`. */
    class Data(val vsync: Long, val jank: Int, val allowedNs: Long, val totalNs: Long)

    /** Ends the reports. */
    fun release(): Unit = platform(Unit) { release.invoke(registration) }

    /** The listener's methods. Batches come on the executor's thread, in any order. */
    private class Batches(private val take: (Data) -> Unit) : InvocationHandler {
        private val type = Class.forName("$CONTROL\$JankData")
        private val vsync = type.getMethod("getVsyncId")
        private val jank = type.getMethod("getJankType")
        private val scheduled = type.getMethod("getScheduledAppFrameTimeNanos")
        private val actual = type.getMethod("getActualAppFrameTimeNanos")

        override fun invoke(proxy: Any, method: Method, arguments: Array<Any?>?): Any? = when (method.name) {
            "onJankDataAvailable" -> (arguments?.firstOrNull() as? List<*>)?.forEach { if (it != null) read(it) }
            "equals" -> arguments?.firstOrNull() === proxy
            "hashCode" -> System.identityHashCode(proxy)
            "toString" -> "tracetee's OnJankDataListener"
            else -> null
        }

        private fun read(one: Any): Unit = platform(Unit) {
            take(Data(vsync.invoke(one) as Long, jank.invoke(one) as Int, scheduled.invoke(one) as Long, actual.invoke(one) as Long))
        }
    }

    internal companion object {
        private const val CONTROL = "android.view.SurfaceControl"

        /**
         * Registers at an `AttachedSurfaceControl`, on the main thread.
         *
         * @return null if the compositor refuses, or if there is no such listener
         */
        fun register(control: Any, executor: Executor, take: (Data) -> Unit): JankListener? = platform(null) {
            val listener = Class.forName("$CONTROL\$OnJankDataListener")
            val registration = Class.forName("$CONTROL\$OnJankDataListenerRegistration")
            val register = Class.forName("android.view.AttachedSurfaceControl")
                .getMethod("registerOnJankDataListener", Executor::class.java, listener)
            val ours = Proxy.newProxyInstance(listener.classLoader, arrayOf(listener), Batches(take))
            val made = register.invoke(control, executor, ours)
            val none = registration.getField("NONE").get(null)
            if (made == null || made === none) null else JankListener(made, registration.getMethod("release"))
        }
    }
}
