// The HTTP client that carries uploads: an app can put its own in place of HttpSender.
package dev.tracetee

import java.io.File
import java.io.IOException
import java.io.InputStream

/**
 * Sends one HTTP request for the agent.
 *
 * [HttpSender] is the default. An app that pins certificates or has its own HTTP client implements this
 * interface and passes it to [TraceteeConfig.Builder.setSender].
 *
 * An implementation sends the request once, unchanged, and follows no redirect. It is called on the thread of
 * [Tracetee.upload].
 */
public fun interface Sender {
    /**
     * Sends [request] and reads the whole response.
     *
     * @throws NotSentException if no byte of the request reached the server
     * @throws IOException if the exchange broke later, so that the server may have the request or not
     */
    @Throws(IOException::class)
    public fun send(request: SenderRequest): SenderResponse
}

/** A request that a [Sender] sends. */
public class SenderRequest internal constructor(
    /** HTTP method: `GET`, `PUT` or `POST`. */
    public val method: String,
    /** Absolute URL. */
    public val url: String,
    /** Header values by name. */
    public val headers: Map<String, String>,
    /** Request body; null if the request has none. */
    public val body: Body?,
    /** Time limit for the whole exchange, in milliseconds. */
    public val timeoutMs: Long,
    /** Size limit of the response body, in bytes. The agent treats a larger response as broken. */
    public val maxResponseBytes: Long,
) {
    /** A request body: a file, or bytes in memory. */
    public class Body private constructor(private val file: File?, private val bytes: ByteArray) {
        internal constructor(file: File) : this(file, NO_BYTES)
        internal constructor(bytes: ByteArray) : this(null, bytes)

        /** Size in bytes. */
        public val length: Long get() = file?.length() ?: bytes.size.toLong()

        /** Opens the body for reading from its first byte; may be called more than once. */
        @Throws(IOException::class)
        public fun open(): InputStream = file?.inputStream() ?: bytes.inputStream()

        private companion object {
            private val NO_BYTES = ByteArray(0)
        }
    }
}

/**
 * The server's response to a [SenderRequest].
 *
 * @property status HTTP status code
 * @property headers header values by name
 * @property body response body, not decoded; empty if there is none
 */
public class SenderResponse(
    public val status: Int,
    public val headers: Map<String, List<String>>,
    public val body: ByteArray,
)

/** Thrown by a [Sender] when no byte of the request reached the server: no network, unknown host, untrusted certificate. */
public class NotSentException(cause: Throwable) : IOException(cause.toString(), cause)
