// The classes of the library that the platform or AndroidX calls. The no-op artifact's manifest declares none of them.
package dev.tracetee

import android.content.Context
import android.view.Window
import androidx.startup.Initializer

/** Listens to no frames, and needs no `androidx.metrics`. */
public class JankHook private constructor() {
    /** Stores the last value; watches no frames. */
    public var isTracking: Boolean = false

    public companion object {
        /** Name of the trigger; it never fires. */
        public const val TRIGGER: String = "jankstats"

        /** Returns a hook that watches nothing. */
        @JvmStatic
        public fun attach(window: Window): JankHook = attach(window, overMs = 0)

        /** Returns a hook that watches nothing. */
        @JvmStatic
        public fun attach(window: Window, overMs: Long): JankHook = JankHook()
    }
}

/** Sets no tracer. */
public object ComposeHook {
    /** Fails: compositions do not become sections. */
    @JvmStatic
    public fun attach(): Outcome = Tracetee.failed
}

/** Installs nothing. */
public class TraceteeInitializer : Initializer<Outcome> {
    override fun create(context: Context): Outcome = Tracetee.failed

    override fun dependencies(): List<Class<out Initializer<*>>> = emptyList()
}
