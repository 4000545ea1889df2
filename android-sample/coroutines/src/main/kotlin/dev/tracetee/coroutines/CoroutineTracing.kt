package dev.tracetee.coroutines

import dev.tracetee.Markers
import dev.tracetee.Tracetee
import kotlin.coroutines.CoroutineContext
import kotlin.coroutines.EmptyCoroutineContext

/** Settings of coroutine tracing, for the whole process. */
public object CoroutineTracing {
    @Volatile
    private var own: Boolean? = null

    /**
     * Enables coroutine tracing. Until the app sets it, the remote configuration at the app's start decides
     * ([Tracetee.isCoroutineTracingOn]), and without one it is false. While it is false, [tracing] returns the empty
     * context, names are not computed, and the named builders behave like the builders that they wrap. Set it once, when the
     * app starts: it does not affect running coroutines.
     */
    @JvmStatic
    public var isEnabled: Boolean
        get() = own ?: Tracetee.isCoroutineTracingOn
        set(value) {
            own = value
        }

    /**
     * Makes misuse throw [IllegalStateException] instead of counting it. Misuse is the end of a section that is not
     * open, or on a thread on which its coroutine does not run. For debug builds and tests.
     */
    @Volatile
    @JvmStatic
    public var isStrict: Boolean = false

    /** Number of misuses that did not throw. */
    @JvmStatic
    public val misuses: Long get() = misuse.get()

    /** Receives all sections. A test can set its own. */
    @Volatile
    public var sink: TraceSink = PlatformSink

    internal val misuse = java.util.concurrent.atomic.AtomicLong()

    internal fun misused(what: String) {
        if (isStrict) throw IllegalStateException(what)
        misuse.incrementAndGet()
    }
}

/** Receives the begins and ends of sections, each on its own thread. */
public interface TraceSink {
    /** Begins a section of the calling thread. */
    public fun begin(name: String)

    /** Ends the innermost section of the calling thread. */
    public fun end()

    /** Begins an asynchronous section on [track]. */
    public fun beginTrack(track: String, name: String, cookie: Int)

    /** Ends the asynchronous section that was begun on [track] with this [cookie]. */
    public fun endTrack(track: String, name: String, cookie: Int)
}

/** Writes to `android.os.Trace` and the agent. */
private object PlatformSink : TraceSink {
    override fun begin(name: String) = Markers.beginSection(name)
    override fun end() = Markers.endSection()
    override fun beginTrack(track: String, name: String, cookie: Int) = Markers.beginTrack(track, name, cookie)
    override fun endTrack(track: String, name: String, cookie: Int) = Markers.endTrack(track, name, cookie)
}

/**
 * Returns a context whose coroutines keep their sections across suspensions. Add it to a scope once; all its
 * coroutines inherit it, each with its own stack:
 *
 * ```
 * val scope = CoroutineScope(Dispatchers.Main + tracing())
 * ```
 */
public fun tracing(): CoroutineContext =
    if (CoroutineTracing.isEnabled) TraceElement(CoroutineSections(null)) else EmptyCoroutineContext

/** Returns [context] with a stack for the new coroutine, if it does not have one. */
internal fun CoroutineContext.withTracing(context: CoroutineContext): CoroutineContext =
    if (CoroutineTracing.isEnabled && this[TraceElement] == null && context[TraceElement] == null) {
        context + TraceElement(CoroutineSections(null))
    } else {
        context
    }
