package dev.tracetee

import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.net.ConnectException
import java.net.HttpURLConnection
import java.net.NoRouteToHostException
import java.net.URL
import java.net.UnknownHostException
import javax.net.ssl.SSLHandshakeException
import javax.net.ssl.SSLPeerUnverifiedException

/**
 * Sends requests with the platform's `HttpURLConnection`, which applies the platform's trust store, its proxy
 * settings and the app's network security configuration.
 */
public object HttpSender : Sender {
    override fun send(request: SenderRequest): SenderResponse {
        val connection = URL(request.url).openConnection() as HttpURLConnection
        try {
            prepare(connection, request)
            connect(connection)
            request.body?.let { body ->
                connection.outputStream.use { out -> body.open().use { it.copyTo(out) } }
            }
            val status = connection.responseCode
            val stream = if (status >= 400) connection.errorStream else responseStream(connection)
            val body = stream?.use { read(it, request.maxResponseBytes) } ?: ByteArray(0)
            // The status line is in this map under a null key.
            val headers = connection.headerFields.filterKeys { name: String? -> name != null }
            return SenderResponse(status, headers, body)
        } finally {
            connection.disconnect()
        }
    }

    private fun prepare(connection: HttpURLConnection, request: SenderRequest) {
        val timeout = request.timeoutMs.coerceIn(1, Int.MAX_VALUE.toLong()).toInt()
        connection.connectTimeout = timeout.coerceAtMost(CONNECT_MS)
        connection.readTimeout = timeout
        connection.instanceFollowRedirects = false
        connection.useCaches = false
        connection.requestMethod = request.method
        for ((name, value) in request.headers) connection.setRequestProperty(name, value)
        // Without this the platform asks for gzip and unpacks the response, and the agent would see other bytes than the
        // server sent.
        if (connection.getRequestProperty("Accept-Encoding") == null) {
            connection.setRequestProperty("Accept-Encoding", "identity")
        }
        request.body?.let { body ->
            connection.doOutput = true
            connection.setFixedLengthStreamingMode(body.length)
        }
    }

    private fun connect(connection: HttpURLConnection) {
        try {
            connection.connect()
        } catch (error: UnknownHostException) {
            throw NotSentException(error)
        } catch (error: ConnectException) {
            throw NotSentException(error)
        } catch (error: NoRouteToHostException) {
            throw NotSentException(error)
        } catch (error: SSLHandshakeException) {
            throw NotSentException(error)
        } catch (error: SSLPeerUnverifiedException) {
            throw NotSentException(error)
        }
    }

    private fun responseStream(connection: HttpURLConnection): InputStream? = try {
        connection.inputStream
    } catch (_: FileNotFoundException) {
        null
    }

    private fun read(stream: InputStream, maxBytes: Long): ByteArray {
        val out = java.io.ByteArrayOutputStream()
        val buffer = ByteArray(8192)
        while (true) {
            val read = stream.read(buffer)
            if (read < 0) return out.toByteArray()
            out.write(buffer, 0, read)
            if (out.size() > maxBytes) throw IOException("the response has more than $maxBytes bytes")
        }
    }

    private const val CONNECT_MS = 15_000
}
