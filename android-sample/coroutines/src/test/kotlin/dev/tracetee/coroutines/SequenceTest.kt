package dev.tracetee.coroutines

import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import kotlin.coroutines.EmptyCoroutineContext
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOf
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.joinAll
import kotlinx.coroutines.launch as plainLaunch
import kotlinx.coroutines.runBlocking as plainRunBlocking
import kotlinx.coroutines.withContext as plainWithContext
import kotlinx.coroutines.yield
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test

/** Each thing that coroutine tracing does, as the exact sequence of begins and ends on each thread. */
class SequenceTest {
    private val sink = RecordingSink()
    private val pools = listOf("T1", "T2").map { name -> Executors.newSingleThreadExecutor { Thread(it, name) } }
    private val one = pools[0].asCoroutineDispatcher()
    private val two = pools[1].asCoroutineDispatcher()

    @BeforeEach
    fun on() {
        CoroutineTracing.sink = sink
        CoroutineTracing.isEnabled = true
        CoroutineTracing.isStrict = true
    }

    @AfterEach
    fun off() {
        one.close()
        two.close()
        CoroutineTracing.isEnabled = false
        CoroutineTracing.isStrict = false
    }

    private fun on1(block: suspend CoroutineScope.() -> Unit) = plainRunBlocking(one + tracing(), block)

    /** Waits until a thread is done, because its last end may come after another thread's begin; returns its events. */
    private fun of(thread: String): String {
        for (pool in pools) {
            pool.shutdown()
            check(pool.awaitTermination(10, TimeUnit.SECONDS))
        }
        return sink.of(thread)
    }

    /** Suspends, whatever the machine does meanwhile, and says so when it continues. */
    private suspend fun pause() {
        yield()
        sink.note("|")
    }

    /** Until the coroutine on that thread has suspended: what it waits for must not be there before. */
    private fun awaitSuspended(thread: String) {
        while (!sink.of(thread).endsWith(", E")) Thread.sleep(1)
    }

    @Test
    fun sectionsEndAtASuspensionAndBeginAgainOldestFirst() {
        on1 { traceCoroutine("A") { traceCoroutine("B") { sink.note("start"); pause(); sink.note("end") } } }
        assertEquals("B A, B B, start, E, E, B A, B B, |, end, E, E", of("T1"))
    }

    @Test
    fun anExceptionEndsThemAndIsThrownOn() {
        val thrown = assertThrows(IllegalArgumentException::class.java) {
            on1 { traceCoroutine("A") { pause(); traceCoroutine("B") { throw IllegalArgumentException("mine") } } }
        }
        assertEquals("mine", thrown.message)
        assertEquals("B A, E, B A, |, B B, E, E", of("T1"))
    }

    @Test
    fun aCancelledCoroutineUnwindsInItsSections() {
        on1 {
            val job = launch("L") { try { delay(100_000) } finally { sink.note("finally") } }
            yield()
            job.cancelAndJoin()
        }
        assertEquals("B L, E, B L, finally, E", of("T1"))
    }

    @Test
    fun collectionAndEachEmissionAreSections() {
        on1 {
            flow { emit(1); yield(); emit(2); yield() }.collect("F") { sink.note("v$it"); yield() }
        }
        val expected = "B collect:F, B collect:F:emit, v1, E, E, " +
            "B collect:F, B collect:F:emit, E, E, " +
            "B collect:F, B collect:F:emit, v2, E, E, " +
            "B collect:F, B collect:F:emit, E, E, " +
            "B collect:F, E"
        assertEquals(expected, of("T1"))
    }

    @Test
    fun collectionWhoseCollectorSuspendsAloneIsAsTheOriginalsDocumentShows() {
        on1 { flow { emit(1); emit(2) }.collect("F") { sink.note("v$it"); yield() } }
        val expected = "B collect:F, B collect:F:emit, v1, E, E, " +
            "B collect:F, B collect:F:emit, E, B collect:F:emit, v2, E, E, " +
            "B collect:F, B collect:F:emit, E, E"
        assertEquals(expected, of("T1"))
    }

    @Test
    fun anotherDispatcherTakesTheSectionsAlong() {
        on1 { traceCoroutine("A") { plainWithContext(two) { sink.note("there"); awaitSuspended("T1"); yield() }; sink.note("here") } }
        assertEquals("B A, E, B A, here, E", of("T1"))
        assertEquals("B A, there, E, B A, E", of("T2"))
    }

    @Test
    fun aThousandContextsOnOneThreadDoNotStack() {
        on1 {
            traceCoroutine("A") {
                repeat(1000) { plainWithContext(kotlinx.coroutines.CoroutineName("n")) { sink.note("in") } }
            }
        }
        assertEquals("B A, " + "in, ".repeat(1000) + "E", of("T1"))
    }

    /** The empty gaps are real: each context's end is a resumption of the one around it, by the dispatcher. */
    @Test
    fun nestedContextsThatSuspendDoNotStack() {
        on1 {
            traceCoroutine("A") {
                plainWithContext(kotlinx.coroutines.CoroutineName("n")) {
                    traceCoroutine("B") { plainWithContext(kotlinx.coroutines.CoroutineName("m")) { pause() } }
                }
                sink.note("out")
            }
        }
        assertEquals("B A, B B, E, E, B A, B B, |, E, E, B A, B B, E, E, B A, out, E", of("T1"))
    }

    @Test
    fun aChildHasItsOwnStackBehindItsParents() {
        on1 {
            traceCoroutine("A") {
                val child = launch("child") { sink.note("c1"); pause(); sink.note("c2") }
                traceCoroutine("B") { child.join() }
            }
        }
        assertEquals(
            "B A, B B, E, E, B A, B child, c1, E, E, B A, B child, |, c2, E, E, B A, B B, E, E",
            sink.of("T1"),
        )
    }

    @Test
    fun aLaunchFromElsewhereIsNotInsideWhatTheScopeDoes() {
        val scope = CoroutineScope(one + tracing())
        plainRunBlocking { scope.launch("L") { sink.note("x") }.join() }
        assertEquals("B L, x, E", of("T1"))
    }

    @Test
    fun namedBuildersAreSections() {
        val value = runBlocking("run", one) {
            coroutineScope("scope") {
                val deferred = async("async", start = CoroutineStart.LAZY) { 20 }
                withContext("with", two) { awaitSuspended("T1"); 1 } + deferred.await() + 21
            }
        }
        assertEquals(42, value)
        assertEquals(
            "B run, B scope, E, E, B run, B scope, E, E, B run, B scope, B async, E, E, E, B run, B scope, E, E",
            sink.of("T1"),
        )
        assertEquals("B run, B scope, B with, E, E, E", of("T2"))
    }

    @Test
    fun aNamedBuilderTracesInAScopeThatDoesNot() {
        plainRunBlocking(one) { launch("L") { pause() } }
        assertEquals("B L, E, B L, |, E", of("T1"))
    }

    @Test
    fun flowOperatorsAreSections() {
        on1 {
            val made = flowOf(1, 2).filter("odd") { it % 2 == 1 }.map("ten") { it * 10 }.flowName("N").toList()
            assertEquals(listOf(10), made)
        }
        assertEquals(
            "B flow:N, B filter:odd:predicate, E, B filter:odd:emit, B map:ten:transform, E, B map:ten:emit, E, E, " +
                "B filter:odd:predicate, E, E",
            sink.of("T1"),
        )
    }

    @Test
    fun theLatestIsCollectedInSections() {
        on1 {
            flow { emit(1); emit(2) }.collectLatest("L") { value ->
                if (value == 1) awaitCancellation() else sink.note("v$value")
            }
        }
        val text = of("T1")
        assertTrue("B collectLatest:L:action, v2, E" in text && "v1" !in text, text)
        assertBalanced()
    }

    @Test
    fun anAsyncSectionIsOneBarOverSuspensions() {
        on1 { traceAsync("load") { pause() }; traceAsync("net", "get") { sink.note("x") } }
        val events = of("T1").split(", ")
        assertEquals("G AsyncTraces load", events[0].substringBeforeLast(' '))
        assertEquals("H" + events[0].drop(1), events[2])
        assertEquals("G net get", events[3].substringBeforeLast(' '))
        assertEquals("H" + events[3].drop(1), events[5])
        assertEquals("|", events[1])
    }

    @Test
    fun aTaskFinishesWhatItStartedLastAndNothingMore() {
        val task = TraceTask("T")
        task.start("outer")
        task.start("inner")
        task.finish()
        task.finish()
        val events = sink.all().split(", ")
        assertEquals(listOf("G T outer", "G T inner"), events.take(2).map { it.substringBeforeLast(' ') })
        assertEquals(events.take(2).reversed().map { "H" + it.drop(1) }, events.drop(2))
        // As in Dart, where it is a StateError.
        val thrown = assertThrows(IllegalStateException::class.java) { task.finish() }
        assertTrue("none is open" in thrown.message!!, thrown.message)
        CoroutineTracing.isStrict = false
        val before = CoroutineTracing.misuses
        task.finish()
        assertEquals(before + 1, CoroutineTracing.misuses)
        // A section that was started while tracing was off has no end either.
        CoroutineTracing.isEnabled = false
        task.start("off")
        CoroutineTracing.isEnabled = true
        task.finish()
        assertEquals(4, sink.all().split(", ").size)
    }

    @Test
    fun switchedOffNothingIsMadeAndNoNameComputed() {
        CoroutineTracing.isEnabled = false
        assertSame(EmptyCoroutineContext, tracing())
        val value = runBlocking("run", one) {
            coroutineScope("scope") {
                traceCoroutine({ error("computed") }) { traceAsync("a") { flowOf(7).map("m") { it }.toList() } }
            }
        }
        assertEquals(listOf(7), value)
        assertEquals("", sink.all())
    }

    @Test
    fun withoutTheContextASectionIsAPlainOne() {
        plainRunBlocking(one) { traceCoroutine("A") { sink.note("x") } }
        traceCoroutine("B") { }
        assertEquals("B A, x, E", of("T1"))
        assertEquals("B A, x, E, B B, E", sink.all())
    }

    @Test
    fun misuseThrowsInStrictModeAndIsCountedOtherwise() {
        val wrongThread: suspend CoroutineScope.() -> Unit = {
            val handle = begin("A")
            plainLaunch { endCoroutineSection(handle) }.join()
            endCoroutineSection(handle)
        }
        val nothingOpen: suspend CoroutineScope.() -> Unit = {
            val handle = begin("A")
            endCoroutineSection(handle)
            endCoroutineSection(handle)
        }
        for ((misuse, text) in listOf(wrongThread to "on which its coroutine does not run", nothingOpen to "none is open")) {
            val thrown = assertThrows(IllegalStateException::class.java) { on1(misuse) }
            assertTrue(text in thrown.message!!, thrown.message)
            CoroutineTracing.isStrict = false
            val before = CoroutineTracing.misuses
            on1(misuse)
            assertEquals(before + 1, CoroutineTracing.misuses)
            CoroutineTracing.isStrict = true
        }
        assertBalanced()
    }

    @Test
    fun anUnconfinedCoroutineRunsInsideWhoResumesIt() {
        val gate = Job()
        on1 {
            val waiter = plainLaunch(Dispatchers.Unconfined) { traceCoroutine("U") { gate.join(); sink.note("u") } }
            traceCoroutine("A") { gate.complete(); sink.note("a") }
            joinAll(waiter)
        }
        assertEquals("B U, E, B A, B U, u, E, a, E", of("T1"))
    }

    @Test
    fun timeoutsEndSections() {
        on1 {
            val value = kotlinx.coroutines.withTimeoutOrNull(500) { traceCoroutine("slow") { delay(100_000) } }
            assertEquals(null, value)
            try {
                traceCoroutine("c") { throw CancellationException("mine") }
            } catch (_: CancellationException) {
                sink.note("caught")
            }
        }
        assertEquals("B slow, E, B slow, E, B c, E, caught", of("T1"))
    }

    private fun assertBalanced() {
        for ((thread, events) in sink.threads()) {
            var depth = 0
            for (event in events) {
                if (event.startsWith("B ")) depth++
                if (event == "E") depth--
                assertTrue(depth >= 0, "$thread: $events")
            }
            assertEquals(0, depth, "$thread: $events")
        }
    }
}
