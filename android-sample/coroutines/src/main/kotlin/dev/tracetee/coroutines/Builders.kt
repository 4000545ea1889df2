// kotlinx.coroutines' builders, with a name: what they run is a section.
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

/** `launch`, as a section called [name]. Its coroutine traces, whether or not its scope does. */
fun CoroutineScope.launch(
    name: String,
    context: CoroutineContext = EmptyCoroutineContext,
    start: CoroutineStart = CoroutineStart.DEFAULT,
    block: suspend CoroutineScope.() -> Unit,
): Job = plainLaunch(coroutineContext.withTracing(context), start) { traceCoroutine(name) { block() } }

/** `async`, as a section called [name]. Its coroutine traces, whether or not its scope does. */
fun <T> CoroutineScope.async(
    name: String,
    context: CoroutineContext = EmptyCoroutineContext,
    start: CoroutineStart = CoroutineStart.DEFAULT,
    block: suspend CoroutineScope.() -> T,
): Deferred<T> = plainAsync(coroutineContext.withTracing(context), start) { traceCoroutine(name) { block() } }

/** `runBlocking`, as a section called [name]. Its coroutine traces. */
@OptIn(ExperimentalContracts::class)
fun <T> runBlocking(
    name: String,
    context: CoroutineContext = EmptyCoroutineContext,
    block: suspend CoroutineScope.() -> T,
): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    return plainRunBlocking(EmptyCoroutineContext.withTracing(context)) { traceCoroutine(name) { block() } }
}

/** `withContext`, as a section called [name] where it runs. */
@OptIn(ExperimentalContracts::class)
suspend fun <T> withContext(
    name: String,
    context: CoroutineContext,
    block: suspend CoroutineScope.() -> T,
): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    return plainWithContext(coroutineContext.withTracing(context)) { traceCoroutine(name) { block() } }
}

/** `coroutineScope`, as a section called [name]. */
@OptIn(ExperimentalContracts::class)
suspend fun <T> coroutineScope(name: String, block: suspend CoroutineScope.() -> T): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    return plainCoroutineScope { traceCoroutine(name) { block() } }
}
