// Sections, counters and instants of one's own, as the platform writes them.
package dev.tracetee

import android.os.Build
import android.os.Trace

/**
 * Markers that appear in tracetee's captures and in system traces alike. They need neither the agent nor a
 * capture: without either they cost a check.
 *
 * A name has at most 127 UTF-16 units, as the platform demands; longer ones are cut.
 */
object Markers {
    private const val MAX_NAME = 127

    /** Begins a section of the calling thread; [endSection] ends the innermost one. */
    @JvmStatic
    fun beginSection(name: String) = Trace.beginSection(fit(name))

    /** Ends the innermost section of the calling thread. */
    @JvmStatic
    fun endSection() = Trace.endSection()

    /** Begins what may end on another thread; [cookie] tells those of one name apart. */
    @JvmStatic
    fun beginAsync(name: String, cookie: Int) {
        if (Build.VERSION.SDK_INT >= 29) {
            Trace.beginAsyncSection(fit(name), cookie)
        } else if (Native.isLoaded) {
            Native.beginAsync(fit(name), cookie)
        }
    }

    /** Ends it. */
    @JvmStatic
    fun endAsync(name: String, cookie: Int) {
        if (Build.VERSION.SDK_INT >= 29) {
            Trace.endAsyncSection(fit(name), cookie)
        } else if (Native.isLoaded) {
            Native.endAsync(fit(name), cookie)
        }
    }

    /**
     * Begins what is asynchronous on a track of its own. The platform keeps its call to itself; so this is for
     * the agent's captures, and for a system trace while one runs. Without the agent it is [beginAsync].
     */
    @JvmStatic
    fun beginTrack(track: String, name: String, cookie: Int) {
        if (Native.isLoaded) Native.beginTrack(fit(track), fit(name), cookie) else beginAsync(name, cookie)
    }

    /** Ends it. */
    @JvmStatic
    fun endTrack(track: String, name: String, cookie: Int) {
        if (Native.isLoaded) Native.endTrack(fit(track), cookie) else endAsync(name, cookie)
    }

    /** A counter has a new value. */
    @JvmStatic
    fun counter(name: String, value: Long) {
        if (Build.VERSION.SDK_INT >= 29) {
            Trace.setCounter(fit(name), value)
        } else if (Native.isLoaded) {
            Native.counter(fit(name), value)
        }
    }

    /** Something happened on the calling thread. In the agent's captures only: the platform hides its call. */
    @JvmStatic
    fun instant(name: String) {
        if (Native.isLoaded) Native.instant(fit(name))
    }

    private fun fit(name: String): String = if (name.length <= MAX_NAME) name else name.substring(0, MAX_NAME)
}

/** Runs [block] in a section called [name]. */
inline fun <T> trace(name: String, block: () -> T): T {
    Markers.beginSection(name)
    try {
        return block()
    } finally {
        Markers.endSection()
    }
}

/** Runs [block] in a section whose name is worth computing only where somebody looks. */
inline fun <T> trace(name: () -> String, block: () -> T): T {
    val recording = Tracetee.isRecording
    if (recording) Markers.beginSection(name())
    try {
        return block()
    } finally {
        if (recording) Markers.endSection()
    }
}

/** A section of the thread that makes it, up to its [close]: for Java's `try (Section s = Section.begin("x"))`. */
class Section private constructor() : AutoCloseable {
    override fun close() = Markers.endSection()

    companion object {
        @JvmStatic
        fun begin(name: String): Section {
            Markers.beginSection(name)
            return Section()
        }
    }
}
