// The kernel's statistics of the main thread, read without stopping it.
package dev.tracetee

import java.io.File
import java.io.RandomAccessFile

/** The main thread's scheduler state and processor time. One thread uses it. */
internal interface MainState {
    /** State as in ps: `R`, `S`, `D` …; `?` if it cannot be read. */
    val state: Char

    /** Processor time in ns; less exact than the state, but it grows while the thread runs. */
    val cpuNs: Long

    /** Rereads the state. */
    fun readState()

    /** Rereads the processor time, which takes less than half as long. */
    fun readTime()
}

/**
 * Reads `/proc/self/task/TID/stat` and `schedstat`, whose descriptors stay open: some 10 µs, and nothing is allocated. In
 * `stat` the name may hold anything, so the state is what follows the last bracket.
 */
internal class ProcMainState(directory: File) : MainState, AutoCloseable {
    constructor(tid: Int) : this(File("/proc/self/task/$tid"))

    private val stat = open(directory, "stat")
    private val schedstat = open(directory, "schedstat")
    private val bytes = ByteArray(512)

    override var state: Char = '?'
        private set
    override var cpuNs: Long = 0
        private set

    override fun readState() {
        state = '?'
        val length = fill(stat)
        var place = length - 1
        while (place > 0 && bytes[place] != BRACKET) place--
        if (place > 0 && place + 2 < length) state = Char(bytes[place + 2].toInt())
    }

    override fun readTime() {
        val times = fill(schedstat)
        var ns = 0L
        var place = 0
        while (place < times && bytes[place] in ZERO..NINE) ns = ns * 10 + (bytes[place++] - ZERO)
        cpuNs = ns
    }

    /** Returns the number of bytes, 0 for a file that cannot be read: the thread has ended. */
    private fun fill(file: RandomAccessFile?): Int = platform(0) {
        if (file == null) return 0
        file.seek(0)
        file.read(bytes).coerceAtLeast(0)
    }

    override fun close() {
        platform(Unit) { stat?.close() }
        platform(Unit) { schedstat?.close() }
    }

    private companion object {
        const val BRACKET = ')'.code.toByte()
        const val ZERO = '0'.code.toByte()
        const val NINE = '9'.code.toByte()

        fun open(directory: File, name: String): RandomAccessFile? = platform(null) { RandomAccessFile(File(directory, name), "r") }
    }
}
