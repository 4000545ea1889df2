package dev.tracetee.coroutines

import dev.tracetee.Markers
import kotlin.coroutines.CoroutineContext
import kotlin.coroutines.EmptyCoroutineContext

/** Settings of coroutine tracing, for the whole process. */
object CoroutineTracing {
    /**
     * Whether [tracing] gives a context that traces. Off by default: then [tracing] is the empty context, names
     * are not computed, and the wrappers do what the functions do that they wrap. Set it once, at the start:
     * coroutines that have begun stay as they are.
     */
    @Volatile
    @JvmStatic
    var isEnabled: Boolean = false

    /**
     * Misuse throws [IllegalStateException] instead of being counted: an end where nothing is open, or on a
     * thread on which its coroutine does not run. For debug builds and tests.
     */
    @Volatile
    @JvmStatic
    var isStrict: Boolean = false

    /** How many misuses there were, where they do not throw. */
    @JvmStatic
    val misuses: Long get() = misuse.get()

    /** Where sections go. A test may put its own here. */
    @Volatile
    var sink: TraceSink = PlatformSink

    internal val misuse = java.util.concurrent.atomic.AtomicLong()

    internal fun misused(what: String) {
        if (isStrict) throw IllegalStateException(what)
        misuse.incrementAndGet()
    }
}

/** Takes the begins and ends of sections, on the thread that they belong to. */
interface TraceSink {
    fun begin(name: String)
    fun end()
    fun beginTrack(track: String, name: String, cookie: Int)
    fun endTrack(track: String, name: String, cookie: Int)
}

/** `android.os.Trace` and the agent. */
private object PlatformSink : TraceSink {
    override fun begin(name: String) = Markers.beginSection(name)
    override fun end() = Markers.endSection()
    override fun beginTrack(track: String, name: String, cookie: Int) = Markers.beginTrack(track, name, cookie)
    override fun endTrack(track: String, name: String, cookie: Int) = Markers.endTrack(track, name, cookie)
}

/**
 * A context whose coroutines keep their sections over suspensions. Put it into a scope once; all coroutines
 * below inherit it, each with a stack of its own:
 *
 * ```
 * val scope = CoroutineScope(Dispatchers.Main + tracing())
 * ```
 */
fun tracing(): CoroutineContext =
    if (CoroutineTracing.isEnabled) TraceElement(CoroutineSections(null)) else EmptyCoroutineContext

/** What a named wrapper adds: a stack for its coroutine, if it would have none. */
internal fun CoroutineContext.withTracing(context: CoroutineContext): CoroutineContext =
    if (CoroutineTracing.isEnabled && this[TraceElement] == null && context[TraceElement] == null) {
        context + TraceElement(CoroutineSections(null))
    } else {
        context
    }
