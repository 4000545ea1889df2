// Records with details: category, arguments, flows, given times, fractions.
package dev.tracetee

/**
 * A record with details. [get] returns the calling thread's own, empty; set details, then call one of the functions that
 * write it. Nothing is allocated, except for a thread's first event.
 *
 * ```
 * Event.get().category("net").arg("url", url).flowBegin(id).beginSection("fetch")
 * ```
 *
 * The details of a record take at most 1000 bytes; the trace counts those beyond that. They appear in tracetee's captures; a
 * system trace gets the record without them. Without the agent, or while nothing is captured, nothing is written; check
 * [Tracetee.isRecording] before you compute details.
 */
public class Event private constructor() {
    private val bytes = ByteArray(DETAILS + MAX_DETAILS + 2 * MAX_NAME)

    /** End of the details. */
    private var end = DETAILS
    private var leftOut = 0
    private var threadTime = false

    /** Sets the category; at most 100 bytes. */
    public fun category(name: String): Event = item {
        put(CATEGORY)
        text(name, MAX_KEY, 1)
    }

    /** Adds an argument. The [key] has at most 100 bytes, the [value] at most 500; longer ones are cut. */
    public fun arg(key: String, value: String): Event = item {
        argument(0, key)
        text(value, MAX_TEXT, 2)
    }

    /** Adds an argument. */
    public fun arg(key: String, value: Long): Event = item {
        argument(1, key)
        long(value)
    }

    /** Adds an argument. */
    public fun arg(key: String, value: Double): Event = item {
        argument(2, key)
        long(value.toRawBits())
    }

    /** Adds an argument. */
    public fun arg(key: String, value: Boolean): Event = item {
        argument(3, key)
        put(if (value) 1 else 0)
    }

    /** The flow [id] begins at this record. Viewers draw arrows from record to record. */
    public fun flowBegin(id: Long): Event = flow(0, id)

    /** The flow [id] passes through this record. */
    public fun flowStep(id: Long): Event = flow(1, id)

    /** The flow [id] ends at this record. */
    public fun flowEnd(id: Long): Event = flow(2, id)

    /** Adds the thread's processor time, which costs a system call: of a section, to its begin and its end. */
    public fun threadTime(): Event {
        threadTime = true
        return this
    }

    /** Begins a section of the calling thread; [endSection] or [Markers.endSection] ends the innermost one. */
    public fun beginSection(name: String): Unit = write('B', "", name)

    /** Ends the innermost section of the calling thread. Its arguments are added to those of its begin. */
    public fun endSection(): Unit = write('E', "", "")

    /** Begins an asynchronous section, which may end on another thread. [cookie] distinguishes sections of one name. */
    public fun beginAsync(name: String, cookie: Int): Unit = write('S', "", name, 1, cookie.toLong())

    /** Ends the asynchronous section that was begun with this [name] and [cookie]. */
    public fun endAsync(name: String, cookie: Int): Unit = write('F', "", name, 1, cookie.toLong())

    /** Begins an asynchronous section on the track [track]. */
    public fun beginTrack(track: String, name: String, cookie: Int): Unit = write('G', track, name, 1, cookie.toLong())

    /** Ends the section that was begun on [track] with this [cookie]. */
    public fun endTrack(track: String, cookie: Int): Unit = write('H', track, "", 1, cookie.toLong())

    /** Marks an instant on the calling thread. */
    public fun instant(name: String): Unit = write('I', "", name)

    /** Marks an instant on the track [track]. */
    public fun instant(track: String, name: String): Unit = write('N', track, name)

    /**
     * Writes a section of the calling thread that has ended. Its times are from `SystemClock.elapsedRealtimeNanos`; in the
     * wrong order they are swapped and counted. If it does not nest in the thread's sections, it becomes an asynchronous
     * section in the trace.
     */
    public fun complete(name: String, beginNs: Long, endNs: Long): Unit = write('X', "", name, 2, beginNs, endNs)

    /** Sets the counter [name] to [value]. */
    public fun counter(name: String, value: Double): Unit = write('C', "", name, 1, value.toRawBits(), flags = REAL)

    /** Sets the counter [name] to [value]. */
    public fun counter(name: String, value: Long): Unit = write('C', "", name, 1, value)

    /** Sets a series of the counter [name] to [value]: the counter `name.series`. */
    public fun counter(name: String, series: String, value: Double): Unit = counter("$name.$series", value)

    private fun flow(point: Int, id: Long): Event = item {
        put(FLOW)
        put(point)
        long(id)
    }

    private fun argument(type: Int, key: String) {
        put(ARGUMENT)
        put(type)
        text(key, MAX_KEY, 1)
    }

    /** Appends a detail as a whole, or counts it if there is no room. */
    private inline fun item(append: () -> Unit): Event {
        val start = end
        append()
        if (end > DETAILS + MAX_DETAILS - LEFT_OUT_BYTES) {
            end = start
            leftOut++
        }
        return this
    }

    // A detail that has no room ends beyond it, in the room of names: MAX_KEY and MAX_TEXT are less.
    private fun put(byte: Int) {
        bytes[end++] = byte.toByte()
    }

    private fun long(value: Long) {
        for (shift in 0..56 step 8) put((value ushr shift).toInt())
    }

    /** Appends a length of [width] bytes and at most [most] bytes of UTF-8. */
    private fun text(text: String, most: Int, width: Int) {
        val start = end
        end += width
        utf8(text, most)
        val length = end - start - width
        bytes[start] = length.toByte()
        if (width == 2) bytes[start + 1] = (length ushr 8).toByte()
    }

    /** Appends whole characters, at most [most] bytes. */
    private fun utf8(text: String, most: Int) {
        val limit = end + most
        var place = 0
        while (place < text.length) {
            val char = text[place++]
            val code = char.code
            if (code < 0x80) {
                if (end + 1 > limit) return
                put(code)
            } else if (code < 0x800) {
                if (end + 2 > limit) return
                put(0xc0 or (code shr 6))
                put(0x80 or (code and 0x3f))
            } else if (char.isHighSurrogate() && place < text.length && text[place].isLowSurrogate()) {
                if (end + 4 > limit) return
                val pair = Character.toCodePoint(char, text[place++])
                put(0xf0 or (pair shr 18))
                put(0x80 or (pair shr 12 and 0x3f))
                put(0x80 or (pair shr 6 and 0x3f))
                put(0x80 or (pair and 0x3f))
            } else {
                // Half of a surrogate pair is not a character.
                val whole = if (char.isSurrogate()) 0xfffd else code
                if (end + 3 > limit) return
                put(0xe0 or (whole shr 12))
                put(0x80 or (whole shr 6 and 0x3f))
                put(0x80 or (whole and 0x3f))
            }
        }
    }

    private fun write(
        letter: Char,
        track: String,
        name: String,
        numbers: Int = 0,
        first: Long = 0,
        second: Long = 0,
        flags: Int = 0,
    ) {
        if (!Native.isLoaded) return
        if (leftOut > 0) {
            put(LEFT_OUT)
            put(leftOut)
            put(leftOut ushr 8)
        }
        val details = end - DETAILS
        utf8(track, MAX_NAME)
        val trackBytes = end - DETAILS - details
        // A `|` would end the track's name.
        for (place in DETAILS + details until end) if (bytes[place] == BAR) bytes[place] = SPACE
        utf8(name, MAX_NAME)
        val length = end - DETAILS
        val start = DETAILS - HEAD - HEAD * numbers
        end = start
        put(letter.code)
        put(flags or if (threadTime) CPU else 0)
        put(trackBytes)
        put(trackBytes ushr 8)
        put(details)
        put(details ushr 8)
        put(0)
        put(0)
        if (numbers > 0) long(first)
        if (numbers > 1) long(second)
        Native.record(bytes, start, DETAILS - start + length)
    }

    private fun emptied(): Event {
        end = DETAILS
        leftOut = 0
        threadTime = false
        return this
    }

    public companion object {
        // The layout is that of agent/recorder/src/rich.rs.
        private const val CATEGORY = 1
        private const val ARGUMENT = 2
        private const val FLOW = 3
        private const val LEFT_OUT = 5
        private const val LEFT_OUT_BYTES = 3
        private const val REAL = 1
        private const val CPU = 2
        private const val HEAD = 8

        /** The head and two numbers come first. */
        private const val DETAILS = 3 * HEAD
        private const val MAX_DETAILS = 1000
        private const val MAX_NAME = 1000
        private const val MAX_KEY = 100
        private const val MAX_TEXT = 500
        private const val BAR = '|'.code.toByte()
        private const val SPACE = ' '.code.toByte()

        private val own = object : ThreadLocal<Event>() {
            override fun initialValue(): Event = Event()
        }

        /** Returns the calling thread's event, empty. Write it before you call this again. */
        @JvmStatic
        public fun get(): Event = own.get()!!.emptied()
    }
}
