// The platform's frame times count in CLOCK_MONOTONIC, which stands still while the device sleeps; traces in CLOCK_BOOTTIME.
package dev.tracetee

import kotlin.math.abs

/** Converts times of `System.nanoTime` into boot time, across one suspend. One thread uses it. */
internal class BootTime(
    private val monotonicNs: () -> Long = System::nanoTime,
    private val bootNs: () -> Long = Native::nowNs,
) {
    /** Boot time less monotonic time, now and before the last suspend. */
    private var offsetNs = 0L
    private var offsetBeforeNs = 0L

    /** The last reading with [offsetBeforeNs] and the first one with [offsetNs]; the suspend is between them. */
    private var lastBeforeNs = Long.MIN_VALUE
    private var firstNs = Long.MIN_VALUE
    private var lastNs = Long.MIN_VALUE

    /** Compares the clocks. Call it for each report, so that a suspend is noticed. */
    fun compare() {
        repeat(TRIES) {
            val before = monotonicNs()
            val boot = bootNs()
            val after = monotonicNs()
            if (after - before > MOST_NS && it < TRIES - 1) return@repeat
            val offset = boot - before - (after - before) / 2
            if (firstNs == Long.MIN_VALUE) {
                offsetNs = offset
                firstNs = before
            } else if (abs(offset - offsetNs) > SUSPEND_NS + (after - before)) {
                offsetBeforeNs = offsetNs
                lastBeforeNs = lastNs
                offsetNs = offset
                firstNs = before
            }
            lastNs = after
            return
        }
    }

    /** Returns the boot time of a monotonic time; see [suspendedNs]. */
    fun boot(monotonicNs: Long): Long = monotonicNs + if (monotonicNs <= lastBeforeNs) offsetBeforeNs else offsetNs

    /**
     * Returns by how much [boot] may be too late: the device slept between the comparisons before and after this time, and
     * it is unknown whether the time is before or after the sleep.
     */
    fun suspendedNs(monotonicNs: Long): Long {
        val isBetween = lastBeforeNs != Long.MIN_VALUE && monotonicNs > lastBeforeNs && monotonicNs <= firstNs
        return if (isBetween) offsetNs - offsetBeforeNs else 0
    }

    private companion object {
        const val TRIES = 3

        /** A comparison in which the thread was preempted is made again. */
        const val MOST_NS = 20_000L

        /** Two comparisons differ by less without a suspend. */
        const val SUSPEND_NS = 500_000L
    }
}
