// A file that remembers whether the process died while it looked at the main thread's stack.
package dev.tracetee

import java.io.File
import java.io.IOException
import java.io.RandomAccessFile

/**
 * Notes in [file] that this [version] of the app is about to ask for stacks, and that it has come back. ART aborts an app whose
 * thread does not stop in time; the next process of that version then finds the note, and does not ask any more. Only the
 * sampler's thread uses it. The kernel keeps the writes of a process that aborts, so nothing is synced.
 */
internal class StackAttempts(private val file: File, private val version: String) {
    private var open: RandomAccessFile? = null
    private var refused = false

    /** Notes the attempt. Returns false if none may be made: an earlier one of this version did not come back, or no file can be written. */
    fun begin(): Boolean {
        if (refused) return false
        try {
            val file = open ?: first().also { open = it }
            write(file, TRYING)
            return !refused
        } catch (_: IOException) {
            refused = true
            return false
        }
    }

    /** Notes that the attempt has come back. */
    fun end() {
        try {
            open?.let { write(it, BACK) }
        } catch (_: IOException) {
            refused = true
        }
    }

    private fun first(): RandomAccessFile {
        file.parentFile?.mkdirs()
        val opened = RandomAccessFile(file, "rw")
        val bytes = ByteArray(opened.length().coerceAtMost(MAX_BYTES).toInt())
        opened.readFully(bytes)
        refused = String(bytes) == "$TRYING $version"
        if (refused) throw IOException("an earlier attempt did not come back")
        return opened
    }

    private fun write(file: RandomAccessFile, state: Char) {
        val bytes = "$state $version".toByteArray()
        file.seek(0)
        file.write(bytes)
        file.setLength(bytes.size.toLong())
    }

    private companion object {
        const val TRYING = 'T'
        const val BACK = 'B'
        const val MAX_BYTES = 1000L
    }
}
