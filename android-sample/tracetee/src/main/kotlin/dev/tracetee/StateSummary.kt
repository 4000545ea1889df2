// The bytes that a process stores in the system, which returns them with the process's end.
package dev.tracetee

import java.nio.BufferUnderflowException
import java.nio.ByteBuffer

/** The last state of a process: [run] is its random id, [startMs] its start and [vsyncNs] its last known vsync, both in boot time. */
internal class StateSummary(
    val run: Long,
    val startMs: Long,
    val vsyncNs: Long,
    val versionCode: Long,
    val isShown: Boolean,
    val screen: String,
) {
    fun toBytes(): ByteArray {
        val name = screen.toByteArray()
        var length = minOf(name.size, MOST - FIXED)
        // Do not split a character.
        while (length < name.size && length > 0 && name[length].toInt() and 0xc0 == 0x80) length--
        val bytes = ByteBuffer.allocate(FIXED + length).putInt(MAGIC).putLong(run).putLong(startMs).putLong(vsyncNs).putLong(versionCode)
        return bytes.put(if (isShown) 1 else 0).put(name, 0, length).array()
    }

    internal companion object {
        /** Maximum number of bytes that the system accepts. */
        const val MOST: Int = 128
        private const val FIXED = 4 + 4 * 8 + 1
        private const val MAGIC = 0x74746431

        /** Reads a summary; null if it is missing, or another library's. */
        fun read(bytes: ByteArray?): StateSummary? = try {
            bytes?.let(ByteBuffer::wrap)?.takeIf { it.int == MAGIC }?.run {
                StateSummary(long, long, long, long, get() == 1.toByte(), String(bytes, position(), remaining()))
            }
        } catch (_: BufferUnderflowException) {
            null
        }
    }
}
