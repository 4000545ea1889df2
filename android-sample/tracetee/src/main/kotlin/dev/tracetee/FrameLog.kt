// The last frames that the platform has reported, for counts over any time.
package dev.tracetee

/** Keeps the last [SIZE] frames: the listener's thread adds them, any thread counts them. Some 135 KB. */
internal class FrameLog {
    private val intendedNs = LongArray(SIZE)
    private val totalNs = LongArray(SIZE)
    private val overrunNs = LongArray(SIZE)
    private val vsync = LongArray(SIZE)
    private val cause = ByteArray(SIZE)

    /** Number of frames that were ever added. */
    private var added = 0L

    /** Adds a report. One of FrameMetrics is a frame; one of JankData corrects the frame of its vsync. */
    @Synchronized
    fun add(frame: FrameRecord, periodNs: Long) {
        if (frame.isSurface) return
        if (frame.jank >= 0) return correct(frame)
        if (frame.intendedNs < 0 || frame.totalNs <= 0) return
        val place = (added++ % SIZE).toInt()
        val allowedNs = if (frame.allowedNs > 0) frame.allowedNs else periodNs
        intendedNs[place] = frame.intendedNs
        totalNs[place] = frame.totalNs
        overrunNs[place] = maxOf(0, frame.totalNs - allowedNs)
        vsync[place] = frame.vsync
        cause[place] = longest(frame).ordinal.toByte()
    }

    private fun longest(frame: FrameRecord): FrameCounts.Cause {
        val stages = frame.stages
        val longest = stages.indices.maxByOrNull { stages[it] } ?: return FrameCounts.Cause.DELAY
        return if (frame.gpuNs > stages[longest]) FrameCounts.Cause.GPU else CAUSES[longest]
    }

    private fun correct(frame: FrameRecord) {
        for (back in 1..minOf(added, SIZE.toLong(), RECENT)) {
            val place = ((added - back) % SIZE).toInt()
            if (vsync[place] != frame.vsync) continue
            val isApps = frame.jank and APPLICATION != 0
            overrunNs[place] = when {
                frame.jank == 0 -> 0
                isApps -> maxOf(1, frame.totalNs - frame.allowedNs)
                // Such a frame is displayed at least one vsync later; this is not measured.
                else -> maxOf(1, overrunNs[place])
            }
            if (!isApps && frame.jank and COMPOSER != 0) cause[place] = FrameCounts.Cause.SYSTEM.ordinal.toByte()
            return
        }
    }

    /** Counts the frames whose vsync is in a time of `System.nanoTime`. */
    @Synchronized
    fun count(fromNs: Long, toNs: Long): FrameCounts {
        var frames = 0
        var late = 0
        var frozen = 0
        val overruns = LongArray(CAUSES.size)
        var oldestNs = Long.MAX_VALUE
        for (place in 0 until minOf(added, SIZE.toLong()).toInt()) {
            oldestNs = minOf(oldestNs, intendedNs[place])
            if (intendedNs[place] < fromNs || intendedNs[place] >= toNs) continue
            frames++
            if (totalNs[place] > FROZEN_NS) frozen++
            if (overrunNs[place] > 0) {
                late++
                overruns[cause[place].toInt()] += overrunNs[place]
            }
        }
        val top = overruns.indices.maxByOrNull { overruns[it] }?.takeIf { late > 0 }
        val isWhole = added <= SIZE || fromNs >= oldestNs
        return FrameCounts(frames, late, frozen, overruns.sum(), top?.let { CAUSES[it] }, isWhole)
    }

    private companion object {
        const val SIZE = 4096

        /** The compositor's verdict arrives within this many frames. */
        const val RECENT = 256L
        const val FROZEN_NS = 700_000_000L
        const val COMPOSER = 1
        const val APPLICATION = 2
        val CAUSES: Array<FrameCounts.Cause> = FrameCounts.Cause.values()
    }
}
