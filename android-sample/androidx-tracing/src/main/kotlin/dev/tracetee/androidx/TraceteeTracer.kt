// The tracer of androidx.tracing 2 that records into the agent's ring buffer.
package dev.tracetee.androidx

import androidx.tracing.Counter
import androidx.tracing.DelicateTracingApi
import androidx.tracing.EventMetadataCloseable
import androidx.tracing.ExperimentalContextPropagation
import androidx.tracing.PropagationToken
import androidx.tracing.PropagationUnsupportedToken
import androidx.tracing.Tracer
import dev.tracetee.Event
import dev.tracetee.Tracetee
import kotlin.coroutines.coroutineContext

/**
 * Records the sections, instants and counters of androidx.tracing 2 in the agent's captures: with category, arguments,
 * flows, correlation ids, call stacks, and across the suspensions of coroutines. Each event is recorded when it happens,
 * so that a killed process loses none.
 *
 * [delegate], for example the wire driver's tracer, also gets each event whose category its own [Tracer.isCategoryEnabled]
 * accepts.
 *
 * Register it once, with [TraceteeTracing.driver] or [TraceteeTracing.install].
 */
@OptIn(DelicateTracingApi::class, ExperimentalContextPropagation::class)
public class TraceteeTracer @JvmOverloads constructor(private val delegate: Tracer? = null) : Tracer() {
    /** Returns true while a capture is recording, or if the delegate wants [category]. If neither is the case, this reads one field. */
    override fun isCategoryEnabled(category: String): Boolean =
        Tracetee.isRecording || (delegate != null && delegate.isCategoryEnabled(category))

    override fun tokenForManualPropagation(flowIds: List<Long>): PropagationToken =
        SectionToken(flowIds, delegate?.tokenForManualPropagation(flowIds), isCoroutine = false)

    override fun tokenFromThreadContext(): PropagationToken = PropagationUnsupportedToken

    override suspend fun tokenFromCoroutineContext(): PropagationToken {
        val theirs = delegate?.tokenFromCoroutineContext()
        val flowIds = coroutineContext[SectionToken]?.flowIds ?: listOf(nextFlowId())
        return SectionToken(flowIds, theirs, isCoroutine = true)
    }

    override fun beginSectionWithMetadata(
        category: String,
        name: String,
        token: PropagationToken?,
        isRoot: Boolean,
    ): EventMetadataCloseable {
        val theirs = delegateOf(category)?.beginSectionWithMetadata(category, name, theirs(token), isRoot)
        val given = token as? SectionToken
        // A token's section may be begun several times, so each has its own state.
        return begin(category, name, given?.let { SectionToken(it.flowIds, theirs?.propagationToken, false) }, theirs)
    }

    override suspend fun beginCoroutineSectionWithMetadata(
        category: String,
        name: String,
        token: PropagationToken?,
        isRoot: Boolean,
    ): EventMetadataCloseable {
        if (token == PropagationUnsupportedToken) return beginSectionWithMetadata(category, name, token, isRoot)
        val theirs = delegateOf(category)?.beginCoroutineSectionWithMetadata(category, name, theirs(token), isRoot)
        val flowIds = (token as? SectionToken)?.flowIds ?: listOf(nextFlowId())
        return begin(category, name, SectionToken(flowIds, theirs?.propagationToken, isCoroutine = true), theirs)
    }

    override fun writeInstant(category: String, name: String, token: PropagationToken?): EventMetadataCloseable {
        val theirs = delegateOf(category)?.writeInstant(category, name, theirs(token))
        if (!Tracetee.isRecording) return theirs ?: NOTHING
        val thread = ThreadState.current()
        val details = thread.details(category, name, theirs?.metadata)
        details.isInstant = true
        details.flowIds = (token as? SectionToken)?.flowIds
        return thread.result(details, NO_END, PropagationUnsupportedToken)
    }

    override fun counter(category: String, name: String): Counter = TraceteeCounter(category, name, delegate)

    private fun begin(
        category: String,
        name: String,
        token: SectionToken?,
        theirs: EventMetadataCloseable?,
    ): EventMetadataCloseable {
        if (!Tracetee.isRecording) return theirs ?: NOTHING
        val thread = ThreadState.current()
        val details = thread.details(category, name, theirs?.metadata)
        if (token == null) {
            val end = if (theirs == null) EndSection else EndBoth(theirs.closeable)
            return thread.result(details, end, PropagationUnsupportedToken)
        }
        details.flowIds = token.flowIds
        token.begun(category, name, theirs?.closeable, thread)
        return thread.result(details, token, token)
    }

    private fun delegateOf(category: String): Tracer? = delegate?.takeIf { it.isCategoryEnabled(category) }

    /** Returns the delegate's token inside a token of this tracer; any other token is the delegate's own. */
    private fun theirs(token: PropagationToken?): PropagationToken? =
        if (token is SectionToken) token.theirs ?: PropagationUnsupportedToken else token
}

/** Ends a section of the thread. Records nothing without a capture. */
internal object EndSection : AutoCloseable {
    override fun close() = Event.get().endSection()
}

/** The same, and the delegate's. */
internal class EndBoth(private val theirs: AutoCloseable) : AutoCloseable {
    override fun close() {
        EndSection.close()
        theirs.close()
    }
}

/** A counter of the agent and of the delegate, whose counter is requested once it wants the category. */
private class TraceteeCounter(private val category: String, private val name: String, private val delegate: Tracer?) :
    Counter {
    private val theirs: Counter? by lazy(LazyThreadSafetyMode.PUBLICATION) { delegate?.counter(category, name) }

    override fun name(): String = name

    override fun setValue(value: Long) {
        if (Tracetee.isRecording) Event.get().category(category).counter(name, value)
        if (isWanted()) theirs?.setValue(value)
    }

    override fun setValue(value: Double) {
        if (Tracetee.isRecording) Event.get().category(category).counter(name, value)
        if (isWanted()) theirs?.setValue(value)
    }

    private fun isWanted() = delegate != null && delegate.isCategoryEnabled(category)
}
