// A coroutine's open sections, and how they come to the threads that it runs on.
package dev.tracetee.coroutines

import kotlin.coroutines.CoroutineContext
import kotlinx.coroutines.CopyableThreadContextElement
import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.ExperimentalCoroutinesApi

/** An open section and those around it, outermost last. Never changed, so that copies share it. */
internal class OpenSection(val name: String, val outer: OpenSection?)

/**
 * The open sections of one coroutine: its coroutine-local stack.
 *
 * It changes only on the thread that the coroutine runs on; the coroutine machinery orders what one thread did
 * before a suspension before what the next one does behind it.
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
 * What is open on one thread. The count is the thread's: a coroutine's suspension on one thread may run after
 * its resumption on another, so its own stack cannot tell how many ends the first thread owes.
 */
internal class ThreadSections {
    /** Whose coroutine runs here, if it traces. */
    var owner: CoroutineSections? = null
    private val open = ArrayList<OpenSection>()

    val size: Int get() = open.size

    fun open(section: OpenSection) {
        open.add(section)
        CoroutineTracing.sink.begin(section.name)
    }

    /** Ends the thread's innermost section, which is that one, unless it was misused. */
    fun close(section: OpenSection) {
        if (open.lastOrNull() !== section) {
            CoroutineTracing.misused("the section \"${section.name}\" ends on a thread on which it is not open")
            return
        }
        open.removeAt(open.size - 1)
        CoroutineTracing.sink.end()
    }

    /** Opens those of [section] and around it that are not open here, outermost first. */
    fun openAll(section: OpenSection?) {
        if (section == null || isOpen(section)) return
        openAll(section.outer)
        open(section)
    }

    /** Ends all but the outermost [size]. */
    fun closeTo(size: Int) {
        while (open.size > size) {
            open.removeAt(open.size - 1)
            CoroutineTracing.sink.end()
        }
    }

    // By identity: another coroutine's section may have the same name.
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

/** What the thread had before a coroutine came to it. Null stands for "the coroutine was there already". */
internal class Before(val owner: CoroutineSections?, val size: Int)

/**
 * Carries [CoroutineSections] to the threads that the coroutine runs on. Each child gets a stack of its own,
 * which begins with what is open around it where it is made.
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
        // Another thread's launch into this scope is not inside what this coroutine does just now.
        val isInside = ThreadSections.current().owner === sections
        return TraceElement(CoroutineSections(if (isInside) sections.innermost else null))
    }

    override fun mergeForChild(overwritingElement: CoroutineContext.Element): CoroutineContext =
        (overwritingElement as? TraceElement)?.copyForChild() ?: copyForChild()

    companion object Key : CoroutineContext.Key<TraceElement>
}
