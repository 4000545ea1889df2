package dev.tracetee

import java.io.File
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test

/**
 * Tests when the sampler asks for no stack. Its main thread is a stand-in that counts the calls of `getStackTrace`; the tests
 * but the last ones say its state. Needs neither the agent nor Android.
 */
class StackSafetyTest {
    /** A thread that is asked for its stack, in a state that the test sets. */
    private class Watched : Thread(), MainState {
        val asked = AtomicInteger()
        var callMs = 0L
        override var cpuNs = 0L

        @Volatile
        var isWorking = true

        @Volatile
        override var state = 'S'

        override fun read() {
            if (isWorking) cpuNs += 1_000_000
        }

        override fun getStackTrace(): Array<StackTraceElement> {
            asked.incrementAndGet()
            if (callMs > 0) sleep(callMs)
            return arrayOf(StackTraceElement("com.app.Feed", "bind", "Feed.kt", 1))
        }
    }

    /** An app whose main thread does not answer for a while. */
    private class Busy(private val attempts: StackAttempts? = null, private val turns: Int = 60) : StackSampler.App {
        var isSeen = true
        private var now = 1_000_000_000L
        private var left = turns
        var attempt = 0

        override fun settings() = if (left-- > 0) (33 shl 16) or 1000 else 0
        override fun nowNs() = System.nanoTime() - base + now
        override fun ask(answer: Runnable) = true
        override fun hasMore() = false
        override fun isInFront() = isSeen
        override fun beginAttempt(): Boolean {
            attempt++
            return attempts?.begin() ?: true
        }

        override fun endAttempt() {
            attempts?.end()
        }

        /** Time passes by itself, so that the test need not wait. */
        override fun sleep(ns: Long) {
            now += ns
        }

        private val base = System.nanoTime()
    }

    private fun run(watched: Watched, app: Busy): StackSampler {
        val sampler = StackSampler(app, watched, watched, 1)
        Thread(sampler).apply { start(); join() }
        return sampler
    }

    @Test
    fun aThreadThatSleepsOrRunsIsAsked() {
        for (kernelState in listOf('S', 'R')) {
            val watched = Watched().apply { this.state = kernelState }
            assertNull(run(watched, Busy()).ended)
            assertTrue("$kernelState: ${watched.asked}", watched.asked.get() > 10)
        }
    }

    @Test
    fun aThreadInTheKernelOrWithoutAProcessorIsNotAsked() {
        for (kernelState in listOf('D', 'T', 't', 'Z', 'X', '?')) {
            val watched = Watched().apply { this.state = kernelState }
            run(watched, Busy())
            assertEquals(kernelState.toString(), 0, watched.asked.get())
        }
        val starving = object : MainState {
            override val state = 'R'

            // It has run until it was asked to answer, and gets no processor since.
            override val cpuNs = 5_000_000L

            override fun read() = Unit
        }
        val watched = Watched()
        val sampler = StackSampler(Busy(), watched, starving, 1)
        Thread(sampler).apply { start(); join() }
        assertEquals(0, watched.asked.get())
    }

    @Test
    fun anAppThatNobodySeesIsNotAsked() {
        val watched = Watched()
        run(watched, Busy().apply { isSeen = false })
        assertEquals(0, watched.asked.get())
    }

    @Test
    fun oneLongCallIsTheLast() {
        val watched = Watched().apply { callMs = 60 }
        val sampler = run(watched, Busy())
        assertEquals(1, watched.asked.get())
        assertTrue(sampler.ended, sampler.ended!!.startsWith("a call took "))
    }

    @Test
    fun aVersionThatDiedInACallDoesNotTryAgain() {
        val file = File(File.createTempFile("stacks", "").apply { delete() }, "app/stacks")
        // An attempt that comes back: the next process may try.
        repeat(2) {
            val watched = Watched()
            assertNull(run(watched, Busy(StackAttempts(file, "7"))).ended)
            assertTrue(watched.asked.get() > 0)
            assertEquals("B 7", file.readText())
        }
        // The process dies in a call: it never notes the end.
        assertTrue(StackAttempts(file, "7").begin())
        assertEquals("T 7", file.readText())
        repeat(2) {
            val watched = Watched()
            assertNotNull(run(watched, Busy(StackAttempts(file, "7"))).ended)
            assertEquals(0, watched.asked.get())
        }
        val other = Watched()
        assertNull(run(other, Busy(StackAttempts(file, "8"))).ended)
        assertTrue(other.asked.get() > 0)
        // No file, no attempt.
        assertFalse(StackAttempts(File("/proc/nowhere/x"), "7").begin())
    }

    @Test
    fun theNoteIsOnDiskBeforeTheFirstCall() {
        val file = File.createTempFile("stacks", "")
        val watched = object : Thread() {
            var seen = ""
            override fun getStackTrace(): Array<StackTraceElement> {
                seen = file.readText()
                return emptyArray()
            }
        }
        val sampler = StackSampler(Busy(StackAttempts(file, "7")), watched, Watched(), 1)
        Thread(sampler).apply { start(); join() }
        assertEquals("T 7", watched.seen)
    }

    /** The parent of a vfork waits in `D`, as a read of FUSE that is not answered: a real one, which the kernel describes. */
    @Test
    fun theKernelSaysThatAThreadIsInDisk() {
        assumeTrue("skipped: no gcc", File("/usr/bin/gcc").exists())
        val directory = File.createTempFile("vfork", "").apply { delete(); mkdirs() }
        val source = File(directory, "v.c").apply {
            writeText("#include <unistd.h>\nint main(void) { if (vfork() == 0) { sleep(60); _exit(0); } return 0; }\n")
        }
        val program = File(directory, "v")
        assertEquals(0, ProcessBuilder("gcc", "-o", program.path, source.path).start().waitFor())
        val process = ProcessBuilder(program.path).start()
        try {
            ProcMainState(File("/proc/${process.pid()}")).use { state ->
                val end = System.nanoTime() + 30_000_000_000
                while (state.state != 'D') {
                    assertTrue("it does not wait", System.nanoTime() < end)
                    Thread.sleep(5)
                    state.read()
                }
                val watched = Watched()
                Thread(StackSampler(Busy(), watched, state, 1)).apply { start(); join() }
                assertEquals(0, watched.asked.get())
            }
        } finally {
            process.descendants().forEach { it.destroyForcibly() }
            process.destroyForcibly()
        }
    }

    @Test
    fun aThreadThatEndsWhileItIsLookedAtIsNoTrouble() {
        val stop = AtomicBoolean()
        // 300 threads beside it, and garbage for the collector.
        val crowd = List(300) { Thread { crowdWork(stop) }.apply { isDaemon = true; start() } }
        val garbage = Thread { while (!stop.get()) ByteArray(1 shl 20).fill(1) }.apply { isDaemon = true; start() }
        val writer = StackWriter(1)
        var frames = 0
        var odd = 0
        repeat(THREADS) { number ->
            val begun = CountDownLatch(1)
            val thread = Thread({ begun.countDown(); shortWork(number) }, "short")
            thread.start()
            begun.await()
            val stack = thread.stackTrace
            frames += stack.size
            // Of that thread, or nothing.
            val isWhole = stack.isEmpty() || stack.last().className == "java.lang.Thread"
            if (!isWhole || stack.any { it.methodName == "crowdWork" }) odd++
            writer.beginRow()
            writer.write(stack, 0, 0)
        }
        stop.set(true)
        crowd.forEach { it.join() }
        garbage.join()
        assertTrue("no thread was seen alive", frames > 0)
        assertEquals(0, odd)
        assertEquals('?', ProcMainState(Int.MAX_VALUE).use { it.read(); it.state })
    }

    private fun crowdWork(stop: AtomicBoolean) {
        while (!stop.get()) Thread.sleep(20)
    }

    private fun shortWork(number: Int): Int = if (number % 3 == 0) Thread.yield().hashCode() else number

    private companion object {
        /** More by hand: `JAVA_OPTIONS=-Dtracetee.threads=100000`. */
        val THREADS: Int = Integer.getInteger("tracetee.threads", 1_000)
    }
}
