// The builders of kotlinx.coroutines with a name: each runs its block in a section.
package dev.tracetee.coroutines

import kotlin.contracts.ExperimentalContracts
import kotlin.contracts.InvocationKind
import kotlin.contracts.contract
import kotlin.coroutines.CoroutineContext
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.coroutineContext
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Deferred
import kotlinx.coroutines.Job
import kotlinx.coroutines.async as plainAsync
import kotlinx.coroutines.coroutineScope as plainCoroutineScope
import kotlinx.coroutines.launch as plainLaunch
import kotlinx.coroutines.runBlocking as plainRunBlocking
import kotlinx.coroutines.withContext as plainWithContext

/** Launches a coroutine that runs [block] in a section called [name]. It traces even if its scope does not. */
public fun CoroutineScope.launch(
    name: String,
    context: CoroutineContext = EmptyCoroutineContext,
    start: CoroutineStart = CoroutineStart.DEFAULT,
    block: suspend CoroutineScope.() -> Unit,
): Job = plainLaunch(coroutineContext.withTracing(context), start) { traceCoroutine(name) { block() } }

/** Starts an `async` coroutine that runs [block] in a section called [name]. It traces even if its scope does not. */
public fun <T> CoroutineScope.async(
    name: String,
    context: CoroutineContext = EmptyCoroutineContext,
    start: CoroutineStart = CoroutineStart.DEFAULT,
    block: suspend CoroutineScope.() -> T,
): Deferred<T> = plainAsync(coroutineContext.withTracing(context), start) { traceCoroutine(name) { block() } }

/** Runs [block] in a section called [name] with `runBlocking`. Its coroutine traces. */
@OptIn(ExperimentalContracts::class)
public fun <T> runBlocking(
    name: String,
    context: CoroutineContext = EmptyCoroutineContext,
    block: suspend CoroutineScope.() -> T,
): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    return plainRunBlocking(EmptyCoroutineContext.withTracing(context)) { traceCoroutine(name) { block() } }
}

/** Runs [block] in a section called [name] with `withContext`, on the thread that [context] selects. */
@OptIn(ExperimentalContracts::class)
public suspend fun <T> withContext(
    name: String,
    context: CoroutineContext,
    block: suspend CoroutineScope.() -> T,
): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    return plainWithContext(coroutineContext.withTracing(context)) { traceCoroutine(name) { block() } }
}

/** Runs [block] in a section called [name] with `coroutineScope`. */
@OptIn(ExperimentalContracts::class)
public suspend fun <T> coroutineScope(name: String, block: suspend CoroutineScope.() -> T): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    return plainCoroutineScope { traceCoroutine(name) { block() } }
}
