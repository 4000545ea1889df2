package dev.tracetee

import android.view.Window
import androidx.metrics.performance.JankStats

/**
 * Fires the trigger `{"custom": {"name": "jankstats"}}` when JankStats of androidx.metrics reports a janky frame.
 *
 * Use it in an app that has tuned JankStats and wants traces of the frames that JankStats counts. Other apps use
 * the agent's trigger `{"jank": {…}}`, which measures frames itself.
 *
 * The app adds the dependency `androidx.metrics:metrics-performance`, which requires API 23.
 */
public class JankHook private constructor(private val stats: JankStats?) {
    /** True while it listens to frames; always false where JankStats does not work, as in unit tests on a JVM. */
    public var isTracking: Boolean
        get() = platform(false) { stats?.isTrackingEnabled ?: false }
        set(value) {
            platform(Unit) { stats?.isTrackingEnabled = value }
        }

    public companion object {
        /** Name of the trigger. */
        public const val TRIGGER: String = "jankstats"

        /** Listens to all janky frames of [window]. Call it on the main thread, in `onCreate` after `setContentView`. */
        @JvmStatic
        public fun attach(window: Window): JankHook = attach(window, overMs = 0)

        /** Like [attach], but ignores frames shorter than [overMs] milliseconds. */
        @JvmStatic
        public fun attach(window: Window, overMs: Long): JankHook {
            val overNs = overMs * 1_000_000
            val stats = platform(null) {
                JankStats.createAndTrack(window) { frame ->
                    if (frame.isJank && frame.frameDurationUiNanos >= overNs) Tracetee.trigger(TRIGGER)
                }
            }
            return JankHook(stats)
        }
    }
}
