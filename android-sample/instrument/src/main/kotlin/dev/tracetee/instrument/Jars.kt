package dev.tracetee.instrument

import java.io.File
import java.io.IOException
import java.util.zip.ZipEntry
import java.util.zip.ZipFile
import java.util.zip.ZipOutputStream

/** Result of the instrumentation of a jar. */
internal class JarReport {
    var classes = 0
    var changed = 0
    val methods = ArrayList<Method>()
    val skipped = ArrayList<Pair<Method, Skipped>>()

    /** Classes that could not be read; they are copied unchanged. */
    val unread = ArrayList<String>()

    /** Signature files, left out because they no longer match. */
    val dropped = ArrayList<String>()
}

/** Instruments a jar. Keeps the order and the times of its entries, and copies resources unchanged. */
internal class Jars(private val transformer: Transformer) {
    /**
     * Writes the instrumented classes of [from] to [to].
     *
     * @throws IOException if a file cannot be read or written; [to] is not created then
     */
    fun transform(from: File, to: File): JarReport {
        val report = JarReport()
        val part = File(to.absoluteFile.parentFile, "${to.name}.part")
        try {
            ZipFile(from).use { zip ->
                ZipOutputStream(part.outputStream().buffered()).use { out ->
                    for (entry in zip.entries()) {
                        if (isSignature(entry.name)) {
                            report.dropped.add(entry.name)
                        } else {
                            copy(entry, zip.getInputStream(entry).use { it.readBytes() }, out, report)
                        }
                    }
                }
            }
            if (!part.renameTo(to)) throw IOException("cannot write $to")
        } finally {
            part.delete()
        }
        return report
    }

    private fun copy(entry: ZipEntry, bytes: ByteArray, out: ZipOutputStream, report: JarReport) {
        var content = bytes
        if (entry.name.endsWith(".class") && !entry.name.endsWith("module-info.class")) {
            report.classes++
            try {
                val done = transformer.transform(bytes)
                if (done.bytes != null) {
                    report.changed++
                    content = done.bytes
                }
                report.methods.addAll(done.methods)
                report.skipped.addAll(done.skipped)
            } catch (error: RuntimeException) {
                // For a newer or invalid class file, ASM throws various exceptions.
                report.unread.add("${entry.name}: ${error.message ?: error}")
            }
        }
        val copy = ZipEntry(entry.name)
        copy.time = entry.time
        if (entry.method == ZipEntry.STORED) {
            copy.method = ZipEntry.STORED
            copy.size = content.size.toLong()
            copy.crc = java.util.zip.CRC32().apply { update(content) }.value
        }
        out.putNextEntry(copy)
        out.write(content)
        out.closeEntry()
    }

    private fun isSignature(name: String) =
        name.startsWith("META-INF/") && name.count { it == '/' } == 1 &&
            (name.endsWith(".SF") || name.endsWith(".RSA") || name.endsWith(".DSA") || name.endsWith(".EC"))
}
