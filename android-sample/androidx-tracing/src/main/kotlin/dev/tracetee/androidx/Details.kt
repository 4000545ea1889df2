// The details of one event, collected until the caller has added all of them; then one record is written.
package dev.tracetee.androidx

import androidx.tracing.DelicateTracingApi
import androidx.tracing.EventMetadata
import androidx.tracing.EventMetadataCloseable
import androidx.tracing.PropagationToken
import androidx.tracing.PropagationUnsupportedToken
import dev.tracetee.Event

/** Maximum number of call stack frames, innermost first; the rest are counted. */
private const val MAX_FRAMES = 8

/** Arguments that are kept; [Event] counts those that do not fit into a record. */
private const val MAX_ARGUMENTS = 32

/** Has no end: an instant, or a section that is not recorded. */
internal val NO_END: AutoCloseable = AutoCloseable { }

/** Result of a call whose event is not recorded. */
@OptIn(DelicateTracingApi::class)
internal val NOTHING: EventMetadataCloseable = EventMetadataCloseable()

/**
 * Collects what a caller adds to an event. Belongs to one thread, which reuses it for the next event. [dispatchToTraceSink]
 * writes the record and forwards the delegate's.
 */
@OptIn(DelicateTracingApi::class)
internal class Details : EventDetails() {
    var isInstant = false
    var flowIds: List<Long>? = null

    /** True from the begin of an event until its record is written: code in between may begin another event. */
    var isBusy = false
        private set
    private var category = ""
    private var name = ""
    private var theirs: EventMetadata? = null
    private var count = 0
    private val keys = arrayOfNulls<String>(MAX_ARGUMENTS)
    private val values = arrayOfNulls<Any>(MAX_ARGUMENTS)
    private var left = 0
    private var frames = 0
    private var stack: StringBuilder? = null

    /** The app's innermost frame. */
    private var site: String? = null

    fun start(category: String, name: String, theirs: EventMetadata?) {
        this.category = category
        this.name = name
        this.theirs = theirs
        isInstant = false
        flowIds = null
        isBusy = true
        count = 0
        left = 0
        frames = 0
        site = null
    }

    override fun addMetadataEntry(name: String, value: Boolean) {
        add(name, value)
        theirs?.addMetadataEntry(name, value)
    }

    override fun addMetadataEntry(name: String, value: Long) {
        add(name, value)
        theirs?.addMetadataEntry(name, value)
    }

    override fun addMetadataEntry(name: String, value: Double) {
        add(name, value)
        theirs?.addMetadataEntry(name, value)
    }

    override fun addMetadataEntry(name: String, value: String) {
        add(name, value)
        theirs?.addMetadataEntry(name, value)
    }

    override fun addCallStackEntry(name: String, sourceFile: String?, lineNumber: Int) {
        if (frames < MAX_FRAMES) {
            val stack = stack ?: StringBuilder().also { stack = it }
            if (frames == 0) stack.setLength(0) else stack.append(" < ")
            stack.append(name)
            if (sourceFile != null) stack.append('(').append(sourceFile).append(':').append(lineNumber).append(')')
        }
        frames++
        if (site == null && Recompositions.isSite(name)) site = name
        theirs?.addCallStackEntry(name, sourceFile, lineNumber)
    }

    override fun addCorrelationId(id: Long) {
        add(CORRELATION, id)
        theirs?.addCorrelationId(id)
    }

    override fun addCorrelationId(id: String) {
        add(CORRELATION, id)
        theirs?.addCorrelationId(id)
    }

    override fun addCategory(name: String) {
        category = if (category.isEmpty()) name else "$category,$name"
        theirs?.addCategory(name)
    }

    override fun dispatchToTraceSink() {
        write()
        isBusy = false
        theirs?.dispatchToTraceSink()
        theirs = null
    }

    private fun add(key: String, value: Any) {
        if (count == MAX_ARGUMENTS) {
            left++
            return
        }
        keys[count] = key
        values[count] = value
        count++
    }

    private fun write() {
        if (category == Recompositions.CATEGORY) name = Recompositions.named(name, flowIds, site)
        val event = Event.get()
        if (category.isNotEmpty()) event.category(category)
        flowIds?.let { for (i in it.indices) event.flowStep(it[i]) }
        for (i in 0 until count) {
            val key = keys[i]!!
            when (val value = values[i]) {
                is String -> event.arg(key, value)
                is Long -> event.arg(key, value)
                is Double -> event.arg(key, value)
                is Boolean -> event.arg(key, value)
            }
            values[i] = null
        }
        if (frames > 0) event.arg("stack", stack.toString())
        if (frames > MAX_FRAMES) event.arg("frames_left_out", (frames - MAX_FRAMES).toLong())
        if (left > 0) event.arg("arguments_left_out", left.toLong())
        if (isInstant) event.instant(name) else event.beginSection(name)
    }

    private companion object {
        const val CORRELATION = "correlation_id"
    }
}

/** Objects that a thread reuses for each event, as androidx.tracing's own tracer does. */
@OptIn(DelicateTracingApi::class)
internal class ThreadState {
    private val details = Details()
    private val result = EventMetadataCloseable()

    /** Returns an empty [Details]; another one while the thread's own is being filled by code outside. */
    fun details(category: String, name: String, theirs: EventMetadata?): Details =
        (if (details.isBusy) Details() else details).apply { start(category, name, theirs) }

    fun result(details: Details, end: AutoCloseable, token: PropagationToken): EventMetadataCloseable {
        // The fields of the thread's own are read after the lambda that adds details: an event inside that has its own.
        if (details !== this.details) return EventMetadataCloseable(details, end, token)
        result.metadata = details
        result.closeable = end
        result.propagationToken = token
        return result
    }

    companion object {
        private val local = object : ThreadLocal<ThreadState>() {
            override fun initialValue() = ThreadState()
        }

        fun current(): ThreadState = local.get()!!
    }
}
