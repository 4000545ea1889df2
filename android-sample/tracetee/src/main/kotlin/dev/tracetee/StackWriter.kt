// Callstacks as records, in the format of docs/TRACE-FORMAT.md.
package dev.tracetee

/** Writes callstacks of the thread [tid] as instants of the calling thread, each function's name once per row. Used by one thread. */
internal class StackWriter(private val tid: Int) {
    /** A function, and the row in which its name was written last. */
    private class Code(val name: String, val text: String, val isFrame: Boolean, var row: Int = 0)

    private val byName = HashMap<String, Code>()

    /** Stacks repeat the places of calls, so a place's name is made once. */
    private val byPlace = HashMap<StackTraceElement, Code>()

    /** The last sample: the next one usually shares its outer frames. */
    private var last = emptyArray<StackTraceElement>()
    private var codes = arrayOfNulls<Code>(MAX_FRAMES)
    private var spare = arrayOfNulls<Code>(MAX_FRAMES)
    private var stack = ""
    private var isFrame = false
    private val text = StringBuilder()
    private var row = 0
    private var count = 0

    /** Begins a row of samples: names are written again, so that a capture beginning with the row contains them. */
    fun beginRow() {
        row++
    }

    /**
     * Writes [frames], which the thread had [agoNs] ago, and which cover the [forNs] before that. Returns true if the thread
     * is drawing a frame.
     */
    fun write(frames: Array<StackTraceElement>, agoNs: Long, forNs: Long): Boolean {
        val depth = frames.size.coerceAtMost(MAX_FRAMES)
        encode(frames, depth)
        var names: Event? = null
        var left = 0
        for (place in 0 until depth) {
            val code = codes[place]!!
            if (code.row == row) continue
            code.row = row
            // A character has at most three bytes; a name without room begins another record.
            val bytes = 3 * code.name.length + HEAD
            if (left < bytes) {
                names?.instant(NAMES)
                names = Event.get()
                left = MAX_DETAILS
            }
            left -= bytes
            names?.arg(code.text, code.name)
        }
        names?.instant(NAMES)
        val event = Event.get().arg("tid", tid.toLong()).arg("stack", stack).arg("ago_us", agoNs / 1000).arg("for_us", forNs / 1000)
        if (frames.size > depth) event.arg("more", (frames.size - depth).toLong())
        event.instant(STACK)
        return isFrame
    }

    /** Finds the codes of [frames], of which the last sample has most. */
    private fun encode(frames: Array<StackTraceElement>, depth: Int) {
        val shift = last.size - frames.size
        var changed = frames.size
        while (changed > 0 && changed + shift > 0 && frames[changed - 1] == last[changed + shift - 1]) changed--
        if (changed == 0 && shift == 0) return
        text.setLength(0)
        isFrame = false
        for (place in 0 until depth) {
            val before = place + shift
            val code = if (place >= changed && before < MAX_FRAMES) codes[before]!! else code(frames[place])
            spare[place] = code
            isFrame = isFrame || code.isFrame
            if (place > 0) text.append(' ')
            text.append(code.text)
        }
        for (place in depth until frames.size) isFrame = isFrame || isFrame(frames[place])
        codes = spare.also { spare = codes }
        stack = text.toString()
        last = frames
    }

    /** Writes the reason for a missing sample. */
    fun note(why: String): Unit = Event.get().arg("why", why).instant(NOTE)

    private fun code(frame: StackTraceElement): Code {
        byPlace[frame]?.let { return it }
        if (byPlace.size >= MAX_PLACES || byName.size >= MAX_PLACES) {
            // Codes keep counting, so that none has two meanings in one row.
            byPlace.clear()
            byName.clear()
        }
        val name = "${frame.className}.${frame.methodName}".take(MAX_NAME)
        return byName.getOrPut(name) { Code(name, letters(count++), isFrame(frame)) }.also { byPlace[frame] = it }
    }

    private fun isFrame(frame: StackTraceElement) =
        frame.methodName == "doFrame" && frame.className == "android.view.Choreographer"

    /** Returns a number as letters, which redaction rules for numbers do not change. */
    private fun letters(number: Int): String {
        val text = StringBuilder()
        var rest = number
        do {
            text.append('a' + rest % 26)
            rest = rest / 26 - 1
        } while (rest >= 0)
        return text.reverse().toString()
    }

    private companion object {
        const val NAMES = "tracetee: stack names"
        const val STACK = "tracetee: stack"
        const val NOTE = "tracetee: stacks"

        /** Frames of a sample, so that their codes have room in an argument. */
        const val MAX_FRAMES = 80
        const val MAX_NAME = 160
        const val MAX_PLACES = 4096

        /** An argument without its text; details of a record. */
        const val HEAD = 12
        const val MAX_DETAILS = 990
    }
}
