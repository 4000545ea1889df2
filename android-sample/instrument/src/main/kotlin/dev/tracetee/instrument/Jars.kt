package dev.tracetee.instrument

import java.io.File
import java.io.IOException
import java.util.zip.ZipEntry
import java.util.zip.ZipFile
import java.util.zip.ZipOutputStream

/** What was done to a jar. */
class JarReport {
    var classes = 0
    var changed = 0
    val methods = ArrayList<Method>()
    val skipped = ArrayList<Pair<Method, Skipped>>()

    /** Classes that could not be read, which are as they were. */
    val unread = ArrayList<String>()

    /** Signatures, which would no longer fit. */
    val dropped = ArrayList<String>()
}

/** From jar to jar: entries in their order, with their times; resources as they are. */
class Jars(private val transformer: Transformer) {
    /** @throws IOException where a file cannot be read or written; then [to] is not there */
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
            if (!part.renameTo(to)) throw IOException("$to cannot be written")
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
                // A class file of a version to come, or a broken one: ASM throws several kinds.
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
