// A file that remembers whether the process died while it looked at the main thread's stack.
package dev.tracetee

import java.io.File
import java.io.IOException
import java.io.RandomAccessFile

/**
 * Notes in [file] that this [version] of the app is in the first call of a recording, or in one that does not return. ART
 * aborts an app whose thread does not stop within seconds; after two processes in a row that died this way, that version
 * makes no more calls. A process that is killed for another reason, such as an ANR, leaves no note unless it is killed in
 * the first call. The kernel keeps the writes of a process that aborts, so nothing is synced.
 */
internal class StackAttempts(private val file: File, private val version: String) {
    private var open: RandomAccessFile? = null
    private var refused = false
    private var stuck = STUCK

    /** Returns false if no stack may be requested: two calls of this version did not return, or no file can be written. */
    @Synchronized
    fun mayCall(): Boolean {
        if (open == null && !refused) refused = !orRefuse { open = first() }
        return !refused
    }

    /** Notes that a call has not returned. */
    @Synchronized
    fun noteStuck() = note(stuck)

    /** Notes that the call has returned. */
    @Synchronized
    fun noteBack() {
        stuck = STUCK
        note(BACK)
    }

    private fun note(state: Char) {
        val file = open ?: return
        if (!orRefuse { write(file, state) }) refused = true
    }

    private inline fun orRefuse(work: () -> Unit): Boolean = try {
        work()
        true
    } catch (_: IOException) {
        false
    }

    private fun first(): RandomAccessFile {
        file.parentFile?.mkdirs()
        val opened = RandomAccessFile(file, "rw")
        val bytes = ByteArray(opened.length().coerceAtMost(MAX_BYTES).toInt())
        opened.readFully(bytes)
        if (String(bytes) == "$TWICE $version") throw IOException("earlier calls did not return")
        if (String(bytes) == "$STUCK $version") stuck = TWICE
        // Ensures that a note can be written when it is needed.
        write(opened, BACK)
        return opened
    }

    private fun write(file: RandomAccessFile, state: Char) {
        val bytes = "$state $version".toByteArray()
        file.seek(0)
        file.write(bytes)
        file.setLength(bytes.size.toLong())
    }

    private companion object {
        const val STUCK = 'T'
        const val TWICE = 'U'
        const val BACK = 'B'
        const val MAX_BYTES = 1000L
    }
}
