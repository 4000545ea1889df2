package dev.tracetee

import java.io.File
import java.io.IOException
import java.net.UnknownHostException
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Test

/** The values that libtracetee.so passes to a sender, and those that it gets back. */
class NativeSenderTest {
    private var seen: SenderRequest? = null
    private val recording = Sender { request ->
        seen = request
        SenderResponse(412, mapOf("ETag" to listOf("a"), "Via" to listOf("b", "c")), byteArrayOf(7))
    }

    private fun send(sender: Sender, path: String? = null, body: ByteArray? = null) =
        NativeSender(sender).send("PUT", "https://x/y", "A: 1\nB: two: parts\n", path, body, 5, 6)

    @Test
    fun aRequestArrivesWholeAndSoDoesItsResponse() {
        val (status, headers, body) = send(recording, body = byteArrayOf(1, 2))!!
        val request = seen!!
        assertEquals(listOf("PUT", "https://x/y", 5L, 6L), request.run { listOf(method, url, timeoutMs, maxResponseBytes) })
        assertEquals(mapOf("A" to "1", "B" to "two: parts"), request.headers)
        val content = request.body!!
        assertEquals(2L, content.length)
        repeat(2) { assertArrayEquals(byteArrayOf(1, 2), content.open().use { it.readBytes() }) }
        assertEquals("412", status)
        assertEquals("ETag: a\nVia: b\nVia: c\n", headers)
        assertArrayEquals(byteArrayOf(7), body as ByteArray)
    }

    @Test
    fun aBodyIsAFileOrThereIsNone() {
        val file = File.createTempFile("body", "").apply { writeText("abc") }
        send(recording, path = file.path)
        val content = seen!!.body!!
        assertEquals(3L, content.length)
        assertEquals("abc", content.open().bufferedReader().use { it.readText() })
        file.delete()
        send(recording)
        assertNull(seen!!.body)
    }

    @Test
    fun nothingSentIsNullAndABrokenExchangeThrows() {
        assertNull(send({ throw NotSentException(UnknownHostException("x")) }))
        assertThrows(IOException::class.java) { send({ throw IOException("broken") }) }
    }
}
