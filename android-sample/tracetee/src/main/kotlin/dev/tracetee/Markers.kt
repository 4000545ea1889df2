// Sections, counters and instants that an app writes.
package dev.tracetee

import android.os.Build
import android.os.Trace

/**
 * Writes markers: sections, asynchronous sections, counters and instants. They appear in tracetee's captures and
 * in system traces. Without the agent, or while nothing is captured, a call costs one check.
 *
 * The platform limits names to 127 UTF-16 units; longer names are cut.
 */
public object Markers {
    private const val MAX_NAME = 127

    /** Begins a section of the calling thread; [endSection] ends the innermost one. */
    @JvmStatic
    public fun beginSection(name: String): Unit = platform(Unit) { Trace.beginSection(fit(name)) }

    /** Ends the innermost section of the calling thread. */
    @JvmStatic
    public fun endSection(): Unit = platform(Unit) { Trace.endSection() }

    /** Begins an asynchronous section, which may end on another thread. [cookie] distinguishes sections of one name. */
    @JvmStatic
    public fun beginAsync(name: String, cookie: Int) {
        if (Build.VERSION.SDK_INT >= 29) {
            platform(Unit) { Trace.beginAsyncSection(fit(name), cookie) }
        } else if (Native.isLoaded) {
            Native.beginAsync(fit(name), cookie)
        }
    }

    /** Ends the asynchronous section that was begun with this [name] and [cookie]. */
    @JvmStatic
    public fun endAsync(name: String, cookie: Int) {
        if (Build.VERSION.SDK_INT >= 29) {
            platform(Unit) { Trace.endAsyncSection(fit(name), cookie) }
        } else if (Native.isLoaded) {
            Native.endAsync(fit(name), cookie)
        }
    }

    /**
     * Begins an asynchronous section on the track [track]. The platform has no public call for tracks, so the
     * agent writes it; without the agent this is [beginAsync].
     */
    @JvmStatic
    public fun beginTrack(track: String, name: String, cookie: Int) {
        if (Native.isLoaded) Native.beginTrack(fit(track), fit(name), cookie) else beginAsync(name, cookie)
    }

    /** Ends the section that was begun on [track] with this [cookie]. */
    @JvmStatic
    public fun endTrack(track: String, name: String, cookie: Int) {
        if (Native.isLoaded) Native.endTrack(fit(track), cookie) else endAsync(name, cookie)
    }

    /** Sets the counter [name] to [value]. */
    @JvmStatic
    public fun counter(name: String, value: Long) {
        if (Build.VERSION.SDK_INT >= 29) {
            platform(Unit) { Trace.setCounter(fit(name), value) }
        } else if (Native.isLoaded) {
            Native.counter(fit(name), value)
        }
    }

    /** Marks an instant on the calling thread. The platform has no public call for instants, so only the agent writes it. */
    @JvmStatic
    public fun instant(name: String) {
        if (Native.isLoaded) Native.instant(fit(name))
    }

    private fun fit(name: String): String = if (name.length <= MAX_NAME) name else name.substring(0, MAX_NAME)
}

/** Runs [block] in a section called [name]. */
public inline fun <T> trace(name: String, block: () -> T): T {
    Markers.beginSection(name)
    try {
        return block()
    } finally {
        Markers.endSection()
    }
}

/** Runs [block] in a section; computes its name only while a capture is recording. */
public inline fun <T> trace(name: () -> String, block: () -> T): T {
    val recording = Tracetee.isRecording
    if (recording) Markers.beginSection(name())
    try {
        return block()
    } finally {
        if (recording) Markers.endSection()
    }
}

/** A section of the calling thread that [close] ends. In Java: `try (Section s = Section.begin("x")) { … }`. */
public class Section private constructor() : AutoCloseable {
    override fun close(): Unit = Markers.endSection()

    public companion object {
        /** Begins a section called [name]. */
        @JvmStatic
        public fun begin(name: String): Section {
            Markers.beginSection(name)
            return Section()
        }
    }
}
