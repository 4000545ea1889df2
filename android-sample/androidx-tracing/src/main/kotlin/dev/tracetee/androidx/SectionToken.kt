// Flows and coroutines: the token that connects sections, and that ends and begins them where a coroutine suspends.
package dev.tracetee.androidx

import androidx.tracing.DelicateTracingApi
import androidx.tracing.PropagationToken
import java.util.concurrent.atomic.AtomicLong
import kotlin.coroutines.CoroutineContext
import kotlinx.coroutines.ThreadContextElement

/** Flow ids of this tracer, distinct from those of androidx.tracing, which count from 42 on. */
private val flows = AtomicLong(1L shl 40)

internal fun nextFlowId(): Long = flows.incrementAndGet()

/**
 * One section that has flows. Its coroutine's suspension ends the slice on its thread, the resumption begins another one
 * on any thread; suspension there and resumption here may overlap, so each thread counts for itself.
 *
 * Stands in the coroutine's context for [theirs] as well, the delegate's token: it answers for the key of that element
 * and passes suspensions on to it.
 */
@OptIn(DelicateTracingApi::class)
internal class SectionToken(
    val flowIds: List<Long>,
    val theirs: PropagationToken?,
    private val isCoroutine: Boolean,
) : PropagationToken, ThreadContextElement<Any?>, AutoCloseable {
    private val theirElement: CoroutineContext.Element? = theirs?.contextElementOrNull()
    private var category = ""
    private var name = ""
    private var theirEnd: AutoCloseable? = null

    /** The threads on which the section is open now, usually one; null if none. */
    private var first: ThreadState? = null
    private var others: HashSet<ThreadState>? = null

    fun begun(category: String, name: String, theirEnd: AutoCloseable?, thread: ThreadState) {
        this.category = category
        this.name = name
        this.theirEnd = theirEnd
        open(thread)
    }

    override fun close() {
        if (closeOn(ThreadState.current())) EndSection.close()
        theirEnd?.close()
    }

    override fun contextElementOrNull(): CoroutineContext.Element = this

    override val key: CoroutineContext.Key<*> get() = Key

    @Suppress("UNCHECKED_CAST")
    override fun <E : CoroutineContext.Element> get(key: CoroutineContext.Key<E>): E? =
        if (key === Key) this as E else theirElement?.get(key)

    override fun updateThreadContext(context: CoroutineContext): Any? {
        if (isCoroutine) {
            val thread = ThreadState.current()
            if (open(thread)) {
                val details = thread.details(category, name, null)
                details.flowIds = flowIds
                details.dispatchToTraceSink()
            }
        }
        return (theirElement as? ThreadContextElement<*>)?.updateThreadContext(context)
    }

    @Suppress("UNCHECKED_CAST")
    override fun restoreThreadContext(context: CoroutineContext, oldState: Any?) {
        if (isCoroutine && closeOn(ThreadState.current())) EndSection.close()
        (theirElement as? ThreadContextElement<Any?>)?.restoreThreadContext(context, oldState)
    }

    /** Notes that the section is open on [thread]; returns false if it was. */
    @Synchronized
    private fun open(thread: ThreadState): Boolean {
        if (first === thread) return false
        if (first == null && others == null) {
            first = thread
            return true
        }
        return (others ?: HashSet<ThreadState>().also { others = it }).add(thread)
    }

    @Synchronized
    private fun closeOn(thread: ThreadState): Boolean {
        if (first === thread) {
            first = null
            return true
        }
        return others?.remove(thread) == true
    }

    companion object Key : CoroutineContext.Key<SectionToken>
}
