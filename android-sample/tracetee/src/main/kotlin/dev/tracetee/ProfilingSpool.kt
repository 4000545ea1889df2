// Hands results of the platform's profiling to the agent's spool (uploader: `spool_name.rs`, `spool/`).
package dev.tracetee

import android.util.Base64
import java.io.BufferedInputStream
import java.io.ByteArrayOutputStream
import java.io.DataInputStream
import java.io.EOFException
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.OutputStream
import java.security.DigestOutputStream
import java.security.MessageDigest
import java.util.zip.DeflaterOutputStream

/** The [reason] why a result is not put into the spool. */
internal class NotKept(val reason: String) : IOException(reason)

/**
 * The spool in [root]. A capture is a file whose name is its whole state; it is in `ready/` once it is complete and synced.
 * A loss is an empty file in `lost/`. The agent's next pass sends both, and enforces the quotas.
 */
internal class ProfilingSpool(private val root: File) {
    /** True unless the user has withdrawn the consent. */
    val hasConsent: Boolean get() = !File(root, "off").exists()

    /** Enters a profile in the loss report. */
    fun lose(id: String, label: String, reason: String) {
        val lost = File(root, "lost")
        lost.mkdirs()
        FileOutputStream(File(lost, "$id~$label~$reason")).close()
    }

    /** Puts a Perfetto trace into the spool, compressed. Throws [NotKept] if that is not possible. */
    @Throws(IOException::class)
    fun put(trace: File, id: String, label: String, priority: Int, made: Moment, maxBytes: Long) {
        if (!trace.isFile) throw NotKept("no_file")
        if (trace.length() > MAX_TRACE_BYTES) throw NotKept("size")
        put(id, label, priority, made, maxBytes) { frames ->
            trace.inputStream().use { Packets(DataInputStream(BufferedInputStream(it, BATCH_BYTES)), frames).copy() }
        }
    }

    /** Puts what [write] writes into the spool, in the form of captures. Throws [NotKept] if that is not possible. */
    @Throws(IOException::class)
    fun put(id: String, label: String, priority: Int, made: Moment, maxBytes: Long, write: (OutputStream) -> Unit) {
        // The agent deletes it if this process is killed.
        val momentary = File(root.parentFile, "momentary-${File("/proc/self").canonicalFile.name}-$id.ftrace")
        try {
            val digest = FileOutputStream(momentary).use { file ->
                val frames = StoredFrames(file, maxBytes)
                write(frames)
                frames.flush()
                file.fd.sync()
                frames.digest()
            }
            val name = listOf(id, label, priority, 0, "", made.toText(), digest).joinToString("~")
            val ready = File(root, "ready")
            ready.mkdirs()
            if (!momentary.renameTo(File(ready, "$name.ftrace.zst"))) throw NotKept("not_written")
        } catch (_: EOFException) {
            throw NotKept("damaged")
        } finally {
            momentary.delete()
        }
    }

    internal companion object {
        /** The largest result that is read: the platform's buffers have at most 256,000 KiB. */
        private const val MAX_TRACE_BYTES = 300_000_000
        const val BATCH_BYTES: Int = 512 * 1024

        /** Makes the label of a profile, which reports show as its window. */
        fun label(kind: String, cause: String): String =
            "$kind.$cause".take(64).map { if (it.code < 128 && (it.isLetterOrDigit() || it in "._-")) it else '_' }.joinToString("")
    }
}

/** Copies the packets of a Perfetto trace, many at a time deflated into one, as Perfetto itself does. */
private class Packets(private val from: DataInputStream, private val to: OutputStream) {
    private val batch = ByteArrayOutputStream()

    fun copy() {
        while (true) {
            val tag = from.read()
            if (tag < 0) break
            if (tag != PACKET) throw NotKept("damaged")
            val packet = ByteArray(length()).also(from::readFully)
            val isDeflated = packet.size > 2 && packet[0] == DEFLATED[0] && packet[1] == DEFLATED[1]
            if (isDeflated) flush()
            field(if (isDeflated) to else batch, byteArrayOf(PACKET.toByte()), packet)
            if (batch.size() >= ProfilingSpool.BATCH_BYTES) flush()
        }
        flush()
    }

    private fun length(): Int {
        var length = 0L
        for (shift in 0..28 step 7) {
            val byte = from.readUnsignedByte()
            length = length or ((byte.toLong() and 0x7f) shl shift)
            if (byte < 0x80) return if (length <= MAX_PACKET_BYTES) length.toInt() else throw NotKept("size")
        }
        throw NotKept("damaged")
    }

    private fun flush() {
        if (batch.size() == 0) return
        val deflated = ByteArrayOutputStream()
        DeflaterOutputStream(deflated).use(batch::writeTo)
        val packet = ByteArrayOutputStream()
        field(packet, DEFLATED, deflated.toByteArray())
        field(to, byteArrayOf(PACKET.toByte()), packet.toByteArray())
        batch.reset()
    }

    private fun field(to: OutputStream, tag: ByteArray, content: ByteArray) {
        to.write(tag)
        var rest = content.size
        while (rest >= 0x80) {
            to.write((rest and 0x7f) or 0x80)
            rest = rest ushr 7
        }
        to.write(rest)
        to.write(content)
    }

    private companion object {
        /** The tag of `Trace.packet`. */
        const val PACKET = 0x0a

        /** The tag of `TracePacket.compressed_packets`. */
        val DEFLATED = byteArrayOf(0x92.toByte(), 0x03)

        /** The app's heap holds a packet several times while it is compressed. */
        const val MAX_PACKET_BYTES = 8L shl 20
    }
}

/** Writes zstd frames of one block each that store their content as it is: the form of captures, without a compressor. */
private class StoredFrames(file: OutputStream, private val maxBytes: Long) : OutputStream() {
    private val content = ByteArray(BLOCK_BYTES)
    private var length = 0
    private var written = 0L
    private val file = DigestOutputStream(file, MessageDigest.getInstance("SHA-256"))

    override fun write(byte: Int) = write(byteArrayOf(byte.toByte()), 0, 1)

    override fun write(bytes: ByteArray, offset: Int, count: Int) {
        var at = offset
        while (at < offset + count) {
            if (length == content.size) flush()
            val part = minOf(offset + count - at, content.size - length)
            System.arraycopy(bytes, at, content, length, part)
            length += part
            at += part
        }
    }

    override fun flush() {
        if (length == 0) return
        val head = MAGIC_AND_SIZE + littleEndian(length, 4) + littleEndian((length shl 3) or LAST, 3)
        written += head.size + length
        if (written > maxBytes) throw NotKept("size")
        file.write(head)
        file.write(content, 0, length)
        length = 0
    }

    fun digest(): String =
        Base64.encodeToString(file.messageDigest.digest(), Base64.URL_SAFE or Base64.NO_PADDING or Base64.NO_WRAP)

    private fun littleEndian(value: Int, bytes: Int) = ByteArray(bytes) { (value ushr (8 * it)).toByte() }

    private companion object {
        /** The largest block of zstd. */
        const val BLOCK_BYTES = 128 * 1024

        /** Marks the last block of a frame. */
        const val LAST = 1

        /** zstd's magic number, and a descriptor: a single segment whose size has four bytes. */
        val MAGIC_AND_SIZE = byteArrayOf(0x28, 0xb5.toByte(), 0x2f, 0xfd.toByte(), 0xa0.toByte())
    }
}
