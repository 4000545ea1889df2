// Functions that run code in a section of the current coroutine.
package dev.tracetee.coroutines

import kotlin.contracts.ExperimentalContracts
import kotlin.contracts.InvocationKind
import kotlin.contracts.contract
import kotlin.random.Random

/**
 * Runs [block] in a section called [name]. When the coroutine suspends, the section and those around it end; when
 * it resumes, on any thread, they begin again.
 *
 * Without [tracing] in the context, and outside coroutines, this is a plain section of the thread, and [block]
 * must not suspend.
 */
@OptIn(ExperimentalContracts::class)
public inline fun <T> traceCoroutine(name: String, block: () -> T): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    val handle = beginCoroutineSection { name }
    try {
        return block()
    } finally {
        endCoroutineSection(handle)
    }
}

/** Runs [block] like the other overload; computes the name only while tracing is enabled. */
@OptIn(ExperimentalContracts::class)
public inline fun <T> traceCoroutine(name: () -> String, block: () -> T): T {
    contract { callsInPlace(block, InvocationKind.EXACTLY_ONCE) }
    val handle = beginCoroutineSection(name)
    try {
        return block()
    } finally {
        endCoroutineSection(handle)
    }
}

/** Runs [block] in an asynchronous section on the track [TRACK]: one slice, including suspensions. */
@OptIn(ExperimentalContracts::class)
public inline fun <T> traceAsync(name: String, block: () -> T): T = traceAsync(TRACK, name, block)

/** Runs [block] in an asynchronous section on [track]: one slice, including suspensions. */
@OptIn(ExperimentalContracts::class)
public inline fun <T> traceAsync(track: String, name: String, block: () -> T): T {
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

/** Default track of [traceAsync]. */
public const val TRACK: String = "AsyncTraces"

/**
 * A task whose asynchronous sections nest on [track], whichever threads they are on: Dart's `TimelineTask`. Only one thread
 * at a time may use it.
 */
public class TraceTask @JvmOverloads constructor(private val track: String = TRACK) {
    private val open = ArrayList<Pair<String, Int>?>()

    /** Starts a section called [name] in those that are open. */
    public fun start(name: String) {
        val section = if (CoroutineTracing.isEnabled) name to Random.nextInt() else null
        open.add(section)
        if (section != null) CoroutineTracing.sink.beginTrack(track, name, section.second)
    }

    /** Finishes the section that was started last. With none open this is a misuse, see [CoroutineTracing.isStrict]. */
    public fun finish() {
        if (open.isEmpty()) return CoroutineTracing.misused("a task finishes a section, and none is open in it")
        open.removeAt(open.size - 1)?.let { (name, cookie) -> CoroutineTracing.sink.endTrack(track, name, cookie) }
    }
}

/** Marks a section that belongs to its thread, not to a coroutine. */
@PublishedApi
internal val PLAIN: Any = Any()

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
