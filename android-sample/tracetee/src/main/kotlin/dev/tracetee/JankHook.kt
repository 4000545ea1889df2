package dev.tracetee

import android.view.Window
import androidx.metrics.performance.JankStats

/**
 * Fires the trigger `{"custom": {"name": "jankstats"}}` when androidx.metrics' JankStats calls a frame janky.
 * The agent's own trigger `{"jank": {…}}` needs no JankStats: it judges the frames' sections. This is for apps
 * that have tuned JankStats and want the trace that belongs to its numbers.
 *
 * The app brings `androidx.metrics:metrics-performance`, which is for API 23 and up.
 */
class JankHook private constructor(private val stats: JankStats) {
    /** Whether it listens. */
    var isTracking: Boolean
        get() = stats.isTrackingEnabled
        set(value) {
            stats.isTrackingEnabled = value
        }

    companion object {
        /** The trigger's name. */
        const val TRIGGER = "jankstats"

        /**
         * Listens to the frames of a window. Call it on the main thread, in `onCreate` behind `setContentView`.
         *
         * @param overMs only frames that took so long fire
         */
        @JvmStatic
        @JvmOverloads
        fun attach(window: Window, overMs: Long = 0): JankHook {
            val overNs = overMs * 1_000_000
            return JankHook(
                JankStats.createAndTrack(window) { frame ->
                    if (frame.isJank && frame.frameDurationUiNanos >= overNs) Tracetee.trigger(TRIGGER)
                },
            )
        }
    }
}
