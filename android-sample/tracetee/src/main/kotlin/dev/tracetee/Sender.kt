package dev.tracetee

/**
 * The app's HTTP client: sends one request, once, as it is, and follows no redirect. [HttpSender] is one over
 * `HttpURLConnection`; an app that pins certificates or has a client of its own gives that to [TraceteeConfig].
 *
 * The agent calls it on the thread of [Tracetee.upload].
 */
fun interface Sender {
    /**
     * @param headers lines `Name: value\n`
     * @param bodyPath the body is this file; or null:
     * @param body it is these bytes; or null: there is none
     * @param timeoutMs for all of it
     * @param maxAnswerBytes an answer with a larger body is a broken one
     * @return null when nothing of it was sent (no network, no such host, an untrusted certificate), else
     *   `arrayOf(status, headers, body)`: a decimal number as String, lines as above, a ByteArray
     * @throws Exception when it broke off behind that: the server may have it or not
     */
    fun send(
        method: String,
        url: String,
        headers: String,
        bodyPath: String?,
        body: ByteArray?,
        timeoutMs: Long,
        maxAnswerBytes: Long,
    ): Array<Any>?
}
