package dev.tracetee.coroutines

import java.util.concurrent.ConcurrentLinkedQueue

/** Keeps what is traced, in the order of each thread: `B name`, `E`, `G name`, `H name`, and notes. */
class RecordingSink : TraceSink {
    class Event(val thread: String, val text: String)

    private val events = ConcurrentLinkedQueue<Event>()

    override fun begin(name: String) = note("B $name")
    override fun end() = note("E")
    override fun beginTrack(track: String, name: String, cookie: Int) = note("G $track $name $cookie")
    override fun endTrack(track: String, name: String, cookie: Int) = note("H $track $name $cookie")

    fun note(text: String) {
        events.add(Event(threadName(), text))
    }

    /** Returns the events of one thread, separated by `, `. */
    fun of(thread: String): String = events.filter { it.thread == thread }.joinToString { it.text }

    /** Returns the events of all threads. */
    fun all(): String = events.joinToString { it.text }

    fun threads(): Map<String, List<String>> = events.groupBy({ it.thread }, { it.text })

    companion object {
        // kotlinx.coroutines' debug mode appends the coroutine to the thread's name.
        fun threadName(): String = Thread.currentThread().name.substringBefore(" @")
    }
}
