// Sections of coroutines.
package dev.tracetee.coroutines

import kotlin.contracts.ExperimentalContracts
import kotlin.contracts.InvocationKind
import kotlin.contracts.contract
import kotlin.random.Random

/**
 * Runs [block] in a section called [name]. Where the coroutine suspends, the section ends; where it goes on,
 * on whatever thread, it begins again, and so do those around it.
 *
 * In code whose context has no [tracing], and outside of coroutines, it is a plain section of the thread: then
 * [block] must not suspend.
 */
@OptIn(ExperimentalContracts::class)
inline fun <T> traceCoroutine(name: String, block: () -> T): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    val handle = beginCoroutineSection { name }
    try {
        return block()
    } finally {
        endCoroutineSection(handle)
    }
}

/** The same, with a name that is computed only where tracing is enabled. */
@OptIn(ExperimentalContracts::class)
inline fun <T> traceCoroutine(name: () -> String, block: () -> T): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    val handle = beginCoroutineSection(name)
    try {
        return block()
    } finally {
        endCoroutineSection(handle)
    }
}

/** Runs [block] in an asynchronous section on the track [TRACK]: one bar, suspensions included. */
@OptIn(ExperimentalContracts::class)
inline fun <T> traceAsync(name: String, block: () -> T): T = traceAsync(TRACK, name, block)

/** The same on a track of the caller's own. */
@OptIn(ExperimentalContracts::class)
inline fun <T> traceAsync(track: String, name: String, block: () -> T): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    if (!CoroutineTracing.isEnabled) return block()
    val cookie = Random.nextInt()
    CoroutineTracing.sink.beginTrack(track, name, cookie)
    try {
        return block()
    } finally {
        CoroutineTracing.sink.endTrack(track, name, cookie)
    }
}

/** The track of [traceAsync]. */
const val TRACK = "AsyncTraces"

/** Opaque: whose section it is. */
@PublishedApi
internal val PLAIN = Any()

@PublishedApi
internal inline fun beginCoroutineSection(name: () -> String): Any? =
    if (CoroutineTracing.isEnabled) begin(name()) else null

@PublishedApi
internal fun begin(name: String): Any {
    val thread = ThreadSections.current()
    val owner = thread.owner
    if (owner == null) {
        CoroutineTracing.sink.begin(name)
        return PLAIN
    }
    owner.begin(name, thread)
    return owner
}

@PublishedApi
internal fun endCoroutineSection(handle: Any?) {
    if (handle == null) return
    if (handle === PLAIN) {
        CoroutineTracing.sink.end()
        return
    }
    val sections = handle as CoroutineSections
    val thread = ThreadSections.current()
    if (thread.owner !== sections) {
        CoroutineTracing.misused("a section ends on a thread on which its coroutine does not run")
        return
    }
    sections.end(thread)
}
