// The only code that knows how libtracetee.so and a Sender exchange requests (agent: jni, `hand`).
package dev.tracetee

import java.io.File

/**
 * Lets libtracetee.so call a [Sender] through JNI, with types that native code can make and read. The library
 * finds [send] by its name and signature, and consumer-rules.pro keeps both.
 */
internal class NativeSender(private val sender: Sender) {
    /**
     * Sends one request.
     *
     * @param headers lines `Name: value\n`
     * @param bodyPath file with the body; null if the body is in [body]
     * @param body bytes of the body; null together with [bodyPath] if there is no body
     * @return null if nothing was sent; otherwise status as decimal String, headers as lines, body as ByteArray
     */
    fun send(
        method: String,
        url: String,
        headers: String,
        bodyPath: String?,
        body: ByteArray?,
        timeoutMs: Long,
        maxResponseBytes: Long,
    ): Array<Any>? {
        val content = bodyPath?.let { SenderRequest.Body(File(it)) } ?: body?.let { SenderRequest.Body(it) }
        val request = SenderRequest(method, url, parse(headers), content, timeoutMs, maxResponseBytes)
        val response = try {
            sender.send(request)
        } catch (_: NotSentException) {
            return null
        }
        return arrayOf(response.status.toString(), format(response.headers), response.body)
    }

    private fun parse(lines: String): Map<String, String> {
        val headers = LinkedHashMap<String, String>()
        for (line in lines.lineSequence()) {
            val colon = line.indexOf(':')
            if (colon > 0) headers[line.substring(0, colon).trim()] = line.substring(colon + 1).trim()
        }
        return headers
    }

    private fun format(headers: Map<String, List<String>>): String = buildString {
        for ((name, values) in headers) {
            for (value in values) append(name).append(": ").append(value).append('\n')
        }
    }
}
