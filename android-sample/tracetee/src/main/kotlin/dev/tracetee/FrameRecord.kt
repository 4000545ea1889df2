// Writes the platform's verdict about a frame into the trace. The collector reads it (collector/jank/src/verdicts.rs).
package dev.tracetee

import android.view.FrameMetrics

/** One frame's verdict. Times are those of `System.nanoTime`, in ns; -1 stands for unknown. */
internal class FrameRecord {
    var vsync = -1L
    var intendedNs = -1L
    var allowedNs = -1L
    var totalNs = -1L
    var gpuNs = -1L
    var isFirst = false

    /** Bits of `SurfaceControl.JankData`. */
    var jank = -1

    /** Reports that the platform has dropped before this one, because nobody took them in time. */
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
    fun take(vsync: Long, jank: Int, allowedNs: Long, totalNs: Long): FrameRecord {
        clear()
        this.vsync = vsync
        this.jank = jank
        this.allowedNs = allowedNs
        this.totalNs = totalNs
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
        unreported = 0
    }

    /**
     * Writes the record. The numbers are one text beside `vsync`: the rules of redaction take other long numbers for private ones.
     */
    fun write(clock: BootTime) {
        Event.get().category(CATEGORY)
            .arg("source", if (jank >= 0) "jank_data" else "frame_metrics")
            .arg("frame", text(clock))
            .instant("frame verdict")
    }

    /** Returns the known values as `vsync=4711 total_ns=…`. */
    fun text(clock: BootTime): String {
        val text = StringBuilder(TEXT).append("vsync=")
        if (vsync >= 0) text.append(vsync) else text.append('-')
        if (intendedNs >= 0) {
            clock.compare()
            text.append(" intended_ns=").append(clock.boot(intendedNs)).append(" mono_ns=").append(intendedNs)
            val suspendedNs = clock.suspendedNs(intendedNs)
            if (suspendedNs > 0) text.append(" suspended_ns=").append(suspendedNs)
        }
        if (jank >= 0) text.append(" jank=").append(jank)
        if (allowedNs > 0) text.append(" allowed_ns=").append(allowedNs)
        text.append(" total_ns=").append(totalNs)
        if (gpuNs > 0) text.append(" gpu_ns=").append(gpuNs)
        if (isFirst) text.append(" first=1")
        if (unreported > 0) text.append(" unreported=").append(unreported)
        return text.toString()
    }

    private companion object {
        const val CATEGORY = "tracetee.frame"

        /** Since API 36; the library compiles with an older SDK, too. */
        const val FRAME_TIMELINE_VSYNC_ID = 14
        const val TEXT = 200

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
