package dev.tracetee.coroutines

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicLong
import kotlin.random.Random
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.runBlocking as plainRunBlocking
import kotlinx.coroutines.withContext as plainWithContext
import kotlinx.coroutines.yield
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test

/**
 * A thousand random trees of coroutines on real dispatchers, against a model: what is open on a thread while a
 * body works is exactly what encloses that body in the program's text; so each thread is well formed, and each
 * section's time is the time that was worked in it.
 */
class RandomTreesTest {
    /** Time is work: a thread's clock stands while nobody works on it. */
    private class Stacks : TraceSink {
        val open = ThreadLocal.withInitial { ArrayList<String>() }
        val workOf = ConcurrentHashMap<String, AtomicLong>()
        val all = ConcurrentHashMap<Thread, ArrayList<String>>()

        override fun begin(name: String) {
            all[Thread.currentThread()] = open.get()
            open.get().add(name)
        }

        override fun end() {
            open.get().removeAt(open.get().size - 1)
        }

        override fun beginTrack(track: String, name: String, cookie: Int) = Unit
        override fun endTrack(track: String, name: String, cookie: Int) = Unit

        /** A unit of work: it counts for each section that is open on this thread. */
        fun work(units: Long) {
            for (name in open.get()) workOf.getOrPut(name) { AtomicLong() }.addAndGet(units)
        }
    }

    private lateinit var stacks: Stacks
    private val expected = ConcurrentHashMap<String, AtomicLong>()
    private val numbers = AtomicInteger()

    @BeforeEach
    fun on() {
        stacks = Stacks()
        CoroutineTracing.sink = stacks
        CoroutineTracing.isEnabled = true
        CoroutineTracing.isStrict = true
    }

    @AfterEach
    fun off() {
        CoroutineTracing.isEnabled = false
        CoroutineTracing.isStrict = false
    }

    @Test
    fun everyStepIsInExactlyItsOwnSections() {
        val misuses = CoroutineTracing.misuses
        val own = List(2) { n -> Executors.newSingleThreadExecutor { Thread(it, "own-$n") }.asCoroutineDispatcher() }
        val dispatchers = own + listOf(Dispatchers.Default, Dispatchers.IO)
        repeat(1000) { seed ->
            val random = Random(seed)
            plainRunBlocking(dispatchers.random(random) + tracing()) { node(Walk(random, dispatchers), 0, emptyList()) }
        }
        own.forEach { it.close() }
        assertTrue(numbers.get() > 5_000, "${numbers.get()} sections")
        assertEquals(expected.mapValues { it.value.get() }, stacks.workOf.mapValues { it.value.get() })
        // The end on a thread that a coroutine has left may come behind its end elsewhere.
        val patience = System.nanoTime() + 10_000_000_000
        while (stacks.all.values.any { it.isNotEmpty() } && System.nanoTime() < patience) Thread.sleep(1)
        for ((thread, open) in stacks.all) assertEquals(emptyList<String>(), open, thread.name)
        assertEquals(misuses, CoroutineTracing.misuses)
    }

    private class Walk(val random: Random, val dispatchers: List<CoroutineDispatcher>) {
        /** Each branch draws from its own numbers, so that a tree is the same however its branches run. */
        fun branch() = Walk(Random(random.nextInt()), dispatchers)
    }

    private suspend fun CoroutineScope.node(walk: Walk, depth: Int, around: List<String>) {
        val random = walk.random
        repeat(random.nextInt(1, 4)) {
            when (if (depth >= 4) random.nextInt(3) else random.nextInt(11)) {
                0 -> work(random.nextLong(1, 5), around)
                1 -> yield()
                2 -> if (random.nextInt(8) == 0) delay(1) else yield()
                3, 4 -> named { name ->
                    traceCoroutine(name) { node(walk, depth + 1, around + name) }
                }
                5 -> named { name ->
                    val branch = walk.branch()
                    launch(name, walk.dispatchers.random(random)) { node(branch, depth + 1, around + name) }
                }
                6 -> named { name ->
                    val branch = walk.branch()
                    val deferred = async(name) { node(branch, depth + 1, around + name); 1 }
                    if (random.nextBoolean()) assertEquals(1, deferred.await())
                }
                7 -> named { name ->
                    withContext(name, walk.dispatchers.random(random)) { node(walk, depth + 1, around + name) }
                }
                8 -> plainWithContext(walk.dispatchers.random(random)) { node(walk, depth + 1, around) }
                9 -> named { name ->
                    try {
                        coroutineScope(name) { node(walk, depth + 1, around + name); throw Expected() }
                    } catch (_: Expected) {
                        work(1, around)
                    }
                }
                10 -> named { name ->
                    flow { emit(1); yield(); emit(2) }.collect(name) {
                        work(1, around + "collect:$name" + "collect:$name:emit")
                    }
                }
            }
            work(1, around)
        }
    }

    private class Expected : Exception()

    private suspend fun named(block: suspend (String) -> Unit) = block("s${numbers.incrementAndGet()}")

    private fun work(units: Long, around: List<String>) {
        assertEquals(around, stacks.open.get())
        for (name in around) expected.getOrPut(name) { AtomicLong() }.addAndGet(units)
        stacks.work(units)
    }
}
