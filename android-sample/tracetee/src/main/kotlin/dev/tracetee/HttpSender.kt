package dev.tracetee

import java.io.File
import java.io.IOException
import java.io.InputStream
import java.net.ConnectException
import java.net.HttpURLConnection
import java.net.NoRouteToHostException
import java.net.URL
import java.net.UnknownHostException
import javax.net.ssl.SSLHandshakeException
import javax.net.ssl.SSLPeerUnverifiedException

/** Sends by the platform's own client: its trust store, its proxies, its network security configuration. */
object HttpSender : Sender {
    override fun send(
        method: String,
        url: String,
        headers: String,
        bodyPath: String?,
        body: ByteArray?,
        timeoutMs: Long,
        maxAnswerBytes: Long,
    ): Array<Any>? {
        val connection = URL(url).openConnection() as HttpURLConnection
        try {
            val timeout = timeoutMs.coerceIn(1, Int.MAX_VALUE.toLong()).toInt()
            connection.connectTimeout = timeout.coerceAtMost(CONNECT_MS)
            connection.readTimeout = timeout
            connection.instanceFollowRedirects = false
            connection.useCaches = false
            connection.requestMethod = method
            for (line in headers.lineSequence()) {
                val colon = line.indexOf(':')
                if (colon > 0) connection.setRequestProperty(line.substring(0, colon).trim(), line.substring(colon + 1).trim())
            }
            // An answer that the platform unpacks would not be the one that was sent.
            if (connection.getRequestProperty("Accept-Encoding") == null) {
                connection.setRequestProperty("Accept-Encoding", "identity")
            }
            val file = bodyPath?.let(::File)
            val length = file?.length() ?: body?.size?.toLong()
            if (length != null) {
                connection.doOutput = true
                connection.setFixedLengthStreamingMode(length)
            }
            try {
                connection.connect()
            } catch (_: UnknownHostException) {
                return null
            } catch (_: ConnectException) {
                return null
            } catch (_: NoRouteToHostException) {
                return null
            } catch (_: SSLHandshakeException) {
                return null
            } catch (_: SSLPeerUnverifiedException) {
                return null
            }
            if (file != null) {
                connection.outputStream.use { out -> file.inputStream().use { it.copyTo(out) } }
            } else if (body != null) {
                connection.outputStream.use { it.write(body) }
            }
            val status = connection.responseCode
            val answer = if (status >= 400) connection.errorStream else answerOf(connection)
            val bytes = answer?.use { read(it, maxAnswerBytes) } ?: ByteArray(0)
            return arrayOf(status.toString(), headersOf(connection), bytes)
        } finally {
            connection.disconnect()
        }
    }

    private fun answerOf(connection: HttpURLConnection): InputStream? = try {
        connection.inputStream
    } catch (_: java.io.FileNotFoundException) {
        null
    }

    private fun headersOf(connection: HttpURLConnection): String = buildString {
        for ((name, values) in connection.headerFields) {
            if (name != null) for (value in values) append(name).append(": ").append(value).append('\n')
        }
    }

    private fun read(answer: InputStream, maxBytes: Long): ByteArray {
        val out = java.io.ByteArrayOutputStream()
        val buffer = ByteArray(8192)
        while (true) {
            val read = answer.read(buffer)
            if (read < 0) return out.toByteArray()
            out.write(buffer, 0, read)
            if (out.size() > maxBytes) throw IOException("the answer has more than $maxBytes bytes")
        }
    }

    private const val CONNECT_MS = 15_000
}
