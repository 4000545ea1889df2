// The events of the no-op artifact, which go nowhere.
package dev.tracetee

/** A record that is written nowhere. */
public class Event private constructor() {
    /** Does nothing. */
    public fun category(name: String): Event = this

    /** Does nothing. */
    public fun arg(key: String, value: String): Event = this

    /** Does nothing. */
    public fun arg(key: String, value: Long): Event = this

    /** Does nothing. */
    public fun arg(key: String, value: Double): Event = this

    /** Does nothing. */
    public fun arg(key: String, value: Boolean): Event = this

    /** Does nothing. */
    public fun flowBegin(id: Long): Event = this

    /** Does nothing. */
    public fun flowStep(id: Long): Event = this

    /** Does nothing. */
    public fun flowEnd(id: Long): Event = this

    /** Does nothing. */
    public fun threadTime(): Event = this

    /** Does nothing. */
    public fun beginSection(name: String): Unit = Unit

    /** Does nothing. */
    public fun endSection(): Unit = Unit

    /** Does nothing. */
    public fun beginAsync(name: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    public fun endAsync(name: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    public fun beginTrack(track: String, name: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    public fun endTrack(track: String, cookie: Int): Unit = Unit

    /** Does nothing. */
    public fun instant(name: String): Unit = Unit

    /** Does nothing. */
    public fun instant(track: String, name: String): Unit = Unit

    /** Does nothing. */
    public fun complete(name: String, beginNs: Long, endNs: Long): Unit = Unit

    /** Does nothing. */
    public fun counter(name: String, value: Long): Unit = Unit

    /** Does nothing. */
    public fun counter(name: String, value: Double): Unit = Unit

    /** Does nothing. */
    public fun counter(name: String, series: String, value: Double): Unit = Unit

    public companion object {
        private val only = Event()

        /** Returns the event that does nothing. */
        @JvmStatic
        public fun get(): Event = only
    }
}
