// Hands the platform's reports about frames to the agent's ledger (agent/src/controller/daily_ledger.rs), some frames in one call.
package dev.tracetee

/**
 * Gathers the reports of a quarter of a second. A frame that the compositor will judge waits for its verdict, at most a
 * second. Used only on the frames' thread; [later] runs a task on that thread after some ms.
 */
internal class FrameLedger(
    private val nowNs: () -> Long = System::nanoTime,
    private val count: (LongArray, Int, Long) -> Unit = Native::countFrames,
    private val later: (Runnable, Long) -> Unit,
) {
    private val atNs = LongArray(SIZE)
    private val word = LongArray(SIZE)
    private val vsync = LongArray(SIZE)
    private val reportedNs = LongArray(SIZE)
    private var waiting = 0
    private var isPosted = false

    /** The compositor has judged a frame: it will judge others. */
    private var isJudged = false
    private val words = LongArray(2 * SIZE)
    private val flush = Runnable {
        isPosted = false
        flush(MOST_WAIT_NS)
    }

    init {
        // The agent need not detect frames itself.
        count(words, 0, nowNs())
    }

    fun add(frame: FrameRecord, periodNs: Long) {
        if (!Native.ledger) return
        if (frame.isSurface) return judge(take(frame, periodNs) ?: return, frame)
        if (frame.jank < 0) {
            if (frame.intendedNs >= 0) take(frame, periodNs)
            return
        }
        isJudged = true
        for (place in waiting - 1 downTo 0) if (vsync[place] == frame.vsync) return judge(place, frame)
    }

    /** Adds a frame; null if it has no time, or an impossible one: the frame ends after its report, or its GPU takes longer. */
    private fun take(frame: FrameRecord, periodNs: Long): Int? {
        val now = nowNs()
        if (frame.totalNs <= 0 || frame.gpuNs > frame.totalNs) return null
        if (frame.intendedNs >= 0 && frame.intendedNs > now - frame.totalNs) return null
        if (waiting == SIZE) flush(0)
        val place = waiting++
        val allowedNs = if (frame.allowedNs > 0) frame.allowedNs else periodNs
        atNs[place] = if (frame.intendedNs >= 0) frame.intendedNs else now
        vsync[place] = if (frame.isSurface) -1 else frame.vsync
        reportedNs[place] = now
        word[place] = late(frame.totalNs - allowedNs) or (if (frame.totalNs > FROZEN_NS) FROZEN else 0)
        if (!isPosted) {
            isPosted = true
            later(flush, EVERY_MS)
        }
        return place
    }

    /** Flags and µs of a frame that ended this long after its deadline. */
    private fun late(overrunNs: Long) = if (overrunNs > 0) LATE or KNOWN or minOf(overrunNs / 1000, MOST_US) else 0

    private fun judge(place: Int, verdict: FrameRecord) {
        val frozen = word[place] and FROZEN
        val isApps = verdict.jank and APPLICATION != 0 && verdict.allowedNs > 0 && verdict.totalNs > verdict.allowedNs
        val lateness = when {
            verdict.jank == 0 -> 0
            isApps -> late(verdict.totalNs - verdict.allowedNs)
            // Shown a vsync later at least, which nothing measures, unless the app was late as well.
            else -> LATE or (word[place] and (KNOWN or MOST_US))
        }
        word[place] = frozen or lateness or JUDGED or ((verdict.jank and 7).toLong() shl 36) or (if (verdict.isSurface) SURFACE else 0)
    }

    /** Passes on the frames that have a verdict, and those that have waited for the maximum time. */
    private fun flush(waitNs: Long) {
        val now = nowNs()
        var ready = 0
        var kept = 0
        for (place in 0 until waiting) {
            if (isJudged && word[place] and JUDGED == 0L && now - reportedNs[place] < waitNs) {
                atNs[kept] = atNs[place]
                word[kept] = word[place]
                vsync[kept] = vsync[place]
                reportedNs[kept++] = reportedNs[place]
            } else {
                words[2 * ready] = atNs[place]
                words[2 * ready++ + 1] = word[place]
            }
        }
        waiting = kept
        if (ready > 0) count(words, ready, now)
        if (kept > 0 && !isPosted) {
            isPosted = true
            later(flush, EVERY_MS)
        }
    }

    private companion object {
        /** Maximum number of waiting frames: one second of a 240 Hz display, which is the agent's limit per call. */
        const val SIZE = 256
        const val EVERY_MS = 250L
        const val MOST_WAIT_NS = 1_000_000_000L
        const val FROZEN_NS = 700_000_000L
        const val APPLICATION = 2

        const val MOST_US = 0xffff_ffffL
        const val LATE = 1L shl 32
        const val FROZEN = 1L shl 33

        /** The overrun is in the lower half. */
        const val KNOWN = 1L shl 34

        /** The compositor's bits are in those from 36 on. */
        const val JUDGED = 1L shl 35
        const val SURFACE = 1L shl 39
    }
}
