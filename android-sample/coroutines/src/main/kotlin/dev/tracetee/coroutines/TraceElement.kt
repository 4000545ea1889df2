// The open sections of a coroutine, and the context element that moves them between threads.
package dev.tracetee.coroutines

import kotlin.coroutines.CoroutineContext
import kotlinx.coroutines.CopyableThreadContextElement
import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.ExperimentalCoroutinesApi

/** An open section, linked to the section around it. Immutable, so that copies share it. */
internal class OpenSection(val name: String, val outer: OpenSection?)

/**
 * The stack of open sections of one coroutine.
 *
 * Only the thread that runs the coroutine changes it. Suspension and resumption order those changes between
 * threads.
 */
internal class CoroutineSections(@Volatile var innermost: OpenSection?) {
    fun begin(name: String, thread: ThreadSections) {
        val section = OpenSection(name, innermost)
        innermost = section
        thread.open(section)
    }

    fun end(thread: ThreadSections) {
        val section = innermost
        if (section == null) {
            CoroutineTracing.misused("a section ends, and none is open in this coroutine")
            return
        }
        innermost = section.outer
        thread.close(section)
    }
}

/**
 * The open sections of one thread. The thread keeps its own count: a coroutine's suspension on one thread may run
 * after its resumption on another, so the coroutine's stack cannot say how many sections the first thread must end.
 */
internal class ThreadSections {
    /** Sections of the coroutine that runs on this thread; null if none that traces. */
    var owner: CoroutineSections? = null
    private val open = ArrayList<OpenSection>()

    val size: Int get() = open.size

    fun open(section: OpenSection) {
        open.add(section)
        CoroutineTracing.sink.begin(section.name)
    }

    /** Ends [section], which is the thread's innermost one unless the caller misused it. */
    fun close(section: OpenSection) {
        if (open.lastOrNull() !== section) {
            CoroutineTracing.misused("the section \"${section.name}\" ends on a thread on which it is not open")
            return
        }
        open.removeAt(open.size - 1)
        CoroutineTracing.sink.end()
    }

    /** Opens [section] and those around it that are not open on this thread, outermost first. */
    fun openAll(section: OpenSection?) {
        if (section == null || isOpen(section)) return
        openAll(section.outer)
        open(section)
    }

    /** Ends all sections but the outermost [size]. */
    fun closeTo(size: Int) {
        while (open.size > size) {
            open.removeAt(open.size - 1)
            CoroutineTracing.sink.end()
        }
    }

    // Compares identity: another coroutine's section may have the same name.
    private fun isOpen(section: OpenSection): Boolean {
        for (i in open.indices.reversed()) if (open[i] === section) return true
        return false
    }

    companion object {
        private val local = object : ThreadLocal<ThreadSections>() {
            override fun initialValue() = ThreadSections()
        }

        fun current(): ThreadSections = local.get()!!
    }
}

/** State of a thread before a coroutine resumed on it. Null if the coroutine was already there. */
internal class Before(val owner: CoroutineSections?, val size: Int)

/**
 * Moves [CoroutineSections] to the threads that the coroutine runs on. Each child gets its own stack, which starts
 * with the sections that are open where the child is created.
 */
@OptIn(DelicateCoroutinesApi::class, ExperimentalCoroutinesApi::class)
internal class TraceElement(private val sections: CoroutineSections) : CopyableThreadContextElement<Before?> {
    override val key: CoroutineContext.Key<*> get() = Key

    override fun updateThreadContext(context: CoroutineContext): Before? {
        val thread = ThreadSections.current()
        if (thread.owner === sections) return null
        val before = Before(thread.owner, thread.size)
        thread.owner = sections
        thread.openAll(sections.innermost)
        return before
    }

    override fun restoreThreadContext(context: CoroutineContext, oldState: Before?) {
        if (oldState == null) return
        val thread = ThreadSections.current()
        thread.owner = oldState.owner
        thread.closeTo(oldState.size)
    }

    override fun copyForChild(): TraceElement {
        // A launch into this scope from another thread is not inside this coroutine's open sections.
        val isInside = ThreadSections.current().owner === sections
        return TraceElement(CoroutineSections(if (isInside) sections.innermost else null))
    }

    override fun mergeForChild(overwritingElement: CoroutineContext.Element): CoroutineContext =
        (overwritingElement as? TraceElement)?.copyForChild() ?: copyForChild()

    companion object Key : CoroutineContext.Key<TraceElement>
}
