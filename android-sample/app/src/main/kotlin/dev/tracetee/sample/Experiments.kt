package dev.tracetee.sample

import dev.tracetee.coroutines.async
import dev.tracetee.coroutines.collect
import dev.tracetee.coroutines.collectLatest
import dev.tracetee.coroutines.filter
import dev.tracetee.coroutines.flowName
import dev.tracetee.coroutines.launch
import dev.tracetee.coroutines.map
import dev.tracetee.coroutines.traceAsync
import dev.tracetee.coroutines.traceCoroutine
import dev.tracetee.coroutines.withContext
import java.util.concurrent.Executors
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.combine
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOn

/** Coroutines to look at in a trace, each by the name of its button. They run in the background. */
object Experiments {
    /** Default and IO share threads. */
    private val other = Executors.newSingleThreadExecutor { Thread(it, "experiments") }.asCoroutineDispatcher()
    private val numbers = flow { repeat(3) { emit(it); delay(5) } }

    private val all: Map<String, suspend CoroutineScope.() -> Unit> = mapOf(
        "a delay" to { traceCoroutine("slice") { delay(10) } },
        "two threads" to { traceCoroutine("slice") { delay(10); withContext("elsewhere", other) { work() } } },
        "one after the other" to { for (name in listOf("first", "second")) launch(name) { delay(5) }.join() },
        "nested launches" to { launch("outer", other) { launch("inner", Dispatchers.Default) { delay(5) } } },
        "a thousand launches" to { repeat(1_000) { launch("launch", Dispatchers.IO) { delay(1) } } },
        "combined results" to { listOf("a", "b").map { async(it) { delay(5); work() } }.awaitAll() },
        "a cancellation" to { launch("cancelled") { delay(10_000) }.also { delay(5) }.cancelAndJoin() },
        "one bar" to { traceAsync("bar") { delay(10) } },
        "a cold flow" to { numbers.collect("numbers") { delay(5) } },
        "operators on another thread" to {
            numbers.filter("even") { it % 2 == 0 }.map("half") { it / 2 }.flowOn(other).collect("halves") { work() }
        },
        "combined flows" to { numbers.flowName("left").combine(numbers.flowName("right"), Int::plus).collect("sums") { work() } },
        "the latest value" to { numbers.collectLatest("latest") { delay(8) } },
    )

    val names: Set<String> get() = all.keys

    /** Runs the experiment called [name] in a section of that name. */
    suspend fun run(name: String): Unit = withContext(name, Dispatchers.Default) { coroutineScope(all.getValue(name)) }

    private fun work() = traceCoroutine("work") { Thread.sleep(2) }
}
