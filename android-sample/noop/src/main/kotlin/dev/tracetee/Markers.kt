// The markers of the no-op artifact, which go neither to the agent nor to the platform.
package dev.tracetee

/** Markers that are written nowhere. */
public object Markers {
    /** Does nothing. */
    @JvmStatic
    public fun beginSection(name: String): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun endSection(): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun beginAsync(name: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun endAsync(name: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun beginTrack(track: String, name: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun endTrack(track: String, name: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun counter(name: String, value: Long): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun instant(name: String): Unit = Unit
}

/** Runs [block]. */
public inline fun <T> trace(name: String, block: () -> T): T {
    Markers.beginSection(name)
    try {
        return block()
    } finally {
        Markers.endSection()
    }
}

/** Runs [block]; never computes the name. */
public inline fun <T> trace(name: () -> String, block: () -> T): T {
    val recording = Tracetee.isRecording
    if (recording) Markers.beginSection(name())
    try {
        return block()
    } finally {
        if (recording) Markers.endSection()
    }
}

/** A section that is written nowhere. */
public class Section private constructor() : AutoCloseable {
    override fun close(): Unit = Unit

    public companion object {
        private val nothing = Section()

        /** Returns a section that does nothing. */
        @JvmStatic
        public fun begin(name: String): Section = nothing
    }
}

/** The calls that the instrumenter inserts; they do nothing. */
@PublishedApi
internal object MethodTrace {
    /** Does nothing. */
    @JvmStatic
    public fun begin(id: String): Unit = Unit

    /** Does nothing. */
    @JvmStatic
    public fun end(): Unit = Unit
}
