// Writes the platform's verdict about a frame into the trace. The collector reads it (collector/jank/src/verdicts.rs).
package dev.tracetee

import android.view.Choreographer
import android.view.FrameMetrics

/** One frame's verdict, or its deadline. Times are from `System.nanoTime`, in ns; -1 means unknown. */
internal class FrameRecord {
    var vsync = -1L
    var intendedNs = -1L
    var allowedNs = -1L
    var totalNs = -1L
    var gpuNs = -1L
    var isFirst = false

    /** Bits of `SurfaceControl.JankData`. */
    var jank = -1

    /** When the display showed the frame; 0: never. */
    var presentNs = -1L

    /** When the display was to show it. */
    var expectedNs = -1L

    /** True for a frame of a surface without a window: its vsync is not that of a `doFrame`. */
    var isSurface = false

    /** True for a frame that the library's callback caused and in which nothing was drawn. */
    var isUndrawn = false

    /** Number of reports that the platform dropped before this one, because they were not consumed in time. */
    var unreported = 0

    /** Times of the frame's parts, in the order of [FrameCounts.Cause]. */
    val stages = LongArray(STAGES.size)

    /** Takes the values of [metrics], which the platform uses again afterwards. */
    fun take(metrics: FrameMetrics, unreported: Int, api: Int): FrameRecord {
        clear()
        intendedNs = if (api >= 26) metrics.getMetric(FrameMetrics.INTENDED_VSYNC_TIMESTAMP) else -1
        totalNs = metrics.getMetric(FrameMetrics.TOTAL_DURATION)
        for (place in STAGES.indices) stages[place] = metrics.getMetric(STAGES[place])
        isFirst = metrics.getMetric(FrameMetrics.FIRST_DRAW_FRAME) == 1L
        if (api >= 31) {
            allowedNs = metrics.getMetric(FrameMetrics.DEADLINE)
            gpuNs = metrics.getMetric(FrameMetrics.GPU_DURATION)
        }
        if (api >= 36) vsync = metrics.getMetric(FRAME_TIMELINE_VSYNC_ID)
        this.unreported = unreported
        return this
    }

    /** Takes the values of a `SurfaceControl.JankData`. */
    fun take(data: JankListener.Data, isSurface: Boolean): FrameRecord {
        clear()
        vsync = data.vsync
        jank = data.jank
        allowedNs = data.allowedNs
        totalNs = data.totalNs
        presentNs = data.presentNs
        expectedNs = data.expectedNs
        this.isSurface = isSurface
        return this
    }

    /** Takes the values to record for a frame that has begun, API 33. The values are there only during the callback. */
    fun take(begun: Choreographer.FrameData): FrameRecord {
        clear()
        val timeline = begun.preferredFrameTimeline
        vsync = timeline.vsyncId
        intendedNs = begun.frameTimeNanos
        allowedNs = timeline.deadlineNanos - intendedNs
        expectedNs = timeline.expectedPresentationTimeNanos
        return this
    }

    /** Takes the vsync of a frame that the library's callback caused and in which nothing was drawn. */
    fun takeUndrawn(vsync: Long): FrameRecord {
        clear()
        this.vsync = vsync
        isUndrawn = true
        return this
    }

    private fun clear() {
        vsync = -1
        intendedNs = -1
        allowedNs = -1
        totalNs = -1
        gpuNs = -1
        isFirst = false
        jank = -1
        presentNs = -1
        expectedNs = -1
        isSurface = false
        isUndrawn = false
        unreported = 0
    }

    val source: String
        get() = when {
            isUndrawn -> "undrawn"
            isSurface -> "surface_jank_data"
            jank >= 0 -> "jank_data"
            totalNs < 0 -> "vsync"
            else -> "frame_metrics"
        }

    /**
     * Writes the record. The numbers are one string after `vsync`, because the redaction rules treat other long numbers as
     * private.
     */
    fun write(clock: BootTime) {
        Event.get().category(CATEGORY)
            .arg("source", source)
            .arg("frame", text(clock))
            .instant("frame verdict")
    }

    /** Returns the known values as `vsync=4711 total_ns=…`. */
    fun text(clock: BootTime): String {
        val text = StringBuilder(TEXT).append("vsync=")
        if (vsync >= 0) text.append(vsync) else text.append('-')
        // The present times are unknown together, or not.
        val monoNs = if (intendedNs >= 0) intendedNs else presentNs
        if (monoNs > 0) clock.compare()
        if (intendedNs >= 0) text.append(" intended_ns=").append(clock.boot(intendedNs))
        if (presentNs >= 0) text.append(" present_ns=").append(if (presentNs > 0) clock.boot(presentNs) else 0)
        if (expectedNs > 0) text.append(" expected_ns=").append(clock.boot(expectedNs))
        if (monoNs > 0) {
            text.append(" mono_ns=").append(monoNs)
            val suspendedNs = clock.suspendedNs(monoNs)
            if (suspendedNs > 0) text.append(" suspended_ns=").append(suspendedNs)
        }
        if (jank >= 0) text.append(" jank=").append(jank)
        if (allowedNs > 0) text.append(" allowed_ns=").append(allowedNs)
        if (totalNs >= 0) text.append(" total_ns=").append(totalNs)
        if (gpuNs > 0) text.append(" gpu_ns=").append(gpuNs)
        if (isFirst) text.append(" first=1")
        if (unreported > 0) text.append(" unreported=").append(unreported)
        return text.toString()
    }

    private companion object {
        const val CATEGORY = "tracetee.frame"

        /** Since API 36; the library compiles with an older SDK, too. */
        const val FRAME_TIMELINE_VSYNC_ID = 14
        const val TEXT = 240

        val STAGES = intArrayOf(
            FrameMetrics.UNKNOWN_DELAY_DURATION,
            FrameMetrics.INPUT_HANDLING_DURATION,
            FrameMetrics.ANIMATION_DURATION,
            FrameMetrics.LAYOUT_MEASURE_DURATION,
            FrameMetrics.DRAW_DURATION,
            FrameMetrics.SYNC_DURATION,
            FrameMetrics.COMMAND_ISSUE_DURATION,
            FrameMetrics.SWAP_BUFFERS_DURATION,
        )
    }
}
