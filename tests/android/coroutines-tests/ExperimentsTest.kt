package dev.tracetee.sample

import dev.tracetee.coroutines.CoroutineTracing
import dev.tracetee.coroutines.RecordingSink
import dev.tracetee.coroutines.tracing
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Runs the sample app's experiments on a JVM. */
class ExperimentsTest {
    @Test
    fun eachExperimentEndsAndItsSectionsNestOnEachThread() {
        CoroutineTracing.isEnabled = true
        CoroutineTracing.isStrict = true
        val seen = Experiments.names.associateWith { name -> RecordingSink().also { run(name, it) }.threads() }
        CoroutineTracing.isEnabled = false
        CoroutineTracing.isStrict = false
        assertTrue(seen.size >= 12, "$seen")
        for ((name, threads) in seen) {
            val sections = threads.values.flatten().filter { it.startsWith("B ") || it.startsWith("G ") }
            assertTrue("B $name" in sections && sections.toSet().size > 1, "$name: $sections")
            for ((thread, events) in threads) {
                val depths = events.runningFold(0) { depth, event -> depth + step(event) }
                assertTrue(depths.all { it >= 0 } && depths.last() == 0, "$name, $thread: $events")
            }
        }
        fun count(name: String, event: String) = seen.getValue(name).values.sumOf { events -> events.count { it.startsWith(event) } }
        assertTrue(seen.getValue("two threads").size > 1)
        // Each suspension ends a section, which begins again. A delay that is over at once does not suspend.
        assertTrue(count("a thousand launches", "B launch") in 1_001..2_000)
        assertEquals(3, count("operators on another thread", "B filter:even:predicate"))
        assertEquals(2, count("operators on another thread", "B collect:halves:emit"))
    }

    private fun run(name: String, sink: RecordingSink) {
        CoroutineTracing.sink = sink
        runBlocking(tracing()) { withTimeout(60_000) { Experiments.run(name) } }
        // The end on a thread that a coroutine has left may come after its end elsewhere.
        val patience = System.nanoTime() + 10_000_000_000
        while (sink.threads().values.any { events -> events.sumOf(::step) > 0 } && System.nanoTime() < patience) {
            Thread.sleep(1)
        }
    }

    /** Change of a thread's depth. */
    private fun step(event: String): Int = when (event[0]) {
        'B' -> 1
        'E' -> -1
        else -> 0
    }
}
