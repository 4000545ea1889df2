package dev.tracetee

import java.io.File
import java.util.Random
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
 * Tests when the sampler asks for no stack. Its main thread is a stand-in that counts the calls of `getStackTrace`; the
 * tests but the last ones say its state. Needs neither the agent nor Android.
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

        override fun readState() = Unit

        override fun readTime() {
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
        var seenFor = Int.MAX_VALUE
        @Volatile
        private var now = 1_000_000_000L
        private var left = turns

        override fun settings() = if (left-- > 0) (33 shl 16) or 1000 else 0
        override fun nowNs() = System.nanoTime() - base + now
        override fun ask(answer: Runnable) = true
        override fun hasMore() = false
        override fun isInFront() = isSeen && seenFor-- > 0
        override fun mayCall() = attempts?.mayCall() ?: true

        override fun noteStuck() {
            attempts?.noteStuck()
        }

        override fun noteBack() {
            attempts?.noteBack()
        }

        /** Time passes by itself, so that the test need not wait. */
        override fun sleep(ns: Long) = pass(ns)

        fun pass(ns: Long) {
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

            override fun readState() = Unit

            override fun readTime() = Unit
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
    fun anAppThatLeavesWhileItsThreadIsLateIsNotAskedAnyMore() {
        val watched = Watched()
        run(watched, Busy(turns = 1000).apply { seenFor = 1 })
        // The system is asked twice a second; the thread once, and after 200 ms 50 times a second.
        assertTrue("${watched.asked}", watched.asked.get() in 10..20)
    }

    /** Time passes in steps of 20 ms: a second call would come at once without the pause, and comes some 6 s later with it. */
    @Test
    fun afterALongCallNoneIsMadeForAHundredTimesAsLong() {
        val watched = Watched().apply { callMs = 60 }
        assertNull(run(watched, Busy(turns = 100)).ended)
        assertEquals(1, watched.asked.get())
        assertNull(run(watched, Busy(turns = 5_000)).ended)
        assertTrue("${watched.asked}", watched.asked.get() in 3..20)
    }

    @Test
    fun aVersionThatDiedTwiceInACallDoesNotTryAgain() {
        val file = File(File.createTempFile("stacks", "").apply { delete() }, "app/stacks")
        // An attempt that comes back: the next process may try.
        repeat(2) {
            val watched = Watched()
            assertNull(run(watched, Busy(StackAttempts(file, "7"))).ended)
            assertTrue(watched.asked.get() > 0)
            assertEquals("B 7", file.readText())
        }
        // A process that is killed between its calls, or in one that has not lasted long, leaves no note.
        assertTrue(StackAttempts(file, "7").mayCall())
        assertTrue(StackAttempts(file, "7").mayCall())
        // The process dies in a call that does not come back; the next one's calls do.
        fun dieInACall() = StackAttempts(file, "7").apply { assertTrue(mayCall()) }.noteStuck()
        dieInACall()
        assertEquals("T 7", file.readText())
        assertNull(run(Watched(), Busy(StackAttempts(file, "7"))).ended)
        assertEquals("B 7", file.readText())
        dieInACall()
        dieInACall()
        assertEquals("U 7", file.readText())
        repeat(2) {
            val watched = Watched()
            assertNotNull(run(watched, Busy(StackAttempts(file, "7"))).ended)
            assertEquals(0, watched.asked.get())
        }
        val other = Watched()
        assertNull(run(other, Busy(StackAttempts(file, "8"))).ended)
        assertTrue(other.asked.get() > 0)
        // No file, no attempt.
        assertFalse(StackAttempts(File("/proc/nowhere/x"), "7").mayCall())
    }

    @Test
    fun aCallThatDoesNotComeBackIsNotedWhileItLastsAndNotAnyMoreWhenItHasComeBack() {
        val file = File.createTempFile("stacks", "")
        val comesBack = CountDownLatch(1)
        val calls = CountDownLatch(1)
        val watched = object : Thread() {
            var inFirst: String? = null

            override fun getStackTrace(): Array<StackTraceElement> {
                if (inFirst == null) {
                    inFirst = file.readText()
                } else {
                    calls.countDown()
                    comesBack.await()
                }
                return emptyArray()
            }
        }
        val app = Busy(StackAttempts(file, "7"))
        val sampler = StackSampler(app, watched, Watched(), 1)
        val thread = Thread(sampler).apply { start() }
        calls.await()
        assertEquals("the first call is noted before it is made", "T 7", watched.inFirst)
        sampler.watch()
        assertEquals("B 7", file.readText())
        app.pass(StackSampler.STUCK_NS)
        sampler.watch()
        assertEquals("T 7", file.readText())
        comesBack.countDown()
        thread.join()
        assertEquals("B 7", file.readText())
        sampler.watch()
        assertEquals("B 7", file.readText())
    }

    /** Memory may be short. The process continues, and the next one of the version asks again. */
    @Test
    fun aCallThatFailsAfterItWasNotedHasComeBack() {
        val file = File.createTempFile("stacks", "")
        val app = Busy(StackAttempts(file, "7"))
        lateinit var sampler: StackSampler
        val watched = object : Thread() {
            override fun getStackTrace(): Array<StackTraceElement> {
                app.pass(StackSampler.STUCK_NS)
                sampler.watch()
                assertEquals("T 7", file.readText())
                throw OutOfMemoryError("planted")
            }
        }
        sampler = StackSampler(app, watched, Watched(), 1)
        Thread(sampler).apply { start(); join() }
        assertTrue(sampler.ended, sampler.ended!!.contains("planted"))
        assertEquals("B 7", file.readText())
    }

    /** Processes are killed while they ask for stacks of a late thread, at any time. The next one of the version asks again. */
    @Test
    fun aProcessThatIsKilledWhileItsThreadIsLateDoesNotKeepTheNextOneFromAsking() {
        val file = File(File.createTempFile("stacks", "").apply { delete() }, "app/stacks")
        val java = File(System.getProperty("java.home"), "bin/java").path
        // JUnit's launcher has the classes in a loader of its own.
        val path = listOf(Victim::class, StackSampler::class, Unit::class)
            .joinToString(File.pathSeparator) { it.java.protectionDomain.codeSource.location.path }
        val command = listOf(java, "-cp", path, Victim::class.java.name, file.path)
        val random = Random(7)
        var refused = 0
        repeat(KILLS) {
            val victim = ProcessBuilder(command).redirectErrorStream(true).start()
            assertEquals("asks", victim.inputStream.bufferedReader().readLine())
            Thread.sleep(random.nextInt(50).toLong())
            victim.destroyForcibly().waitFor()
            if (file.readText().startsWith("U")) refused++
            // It would keep all later ones from asking.
            if (file.readText().startsWith("U")) file.delete()
        }
        assertEquals("of $KILLS", 0, refused)
    }

    /** A process whose main thread is late for good, and is asked for its stack. */
    internal object Victim {
        @JvmStatic
        fun main(arguments: Array<String>) {
            val attempts = StackAttempts(File(arguments.single()), "7")
            val late = Thread.currentThread()
            val app = Busy(attempts, Int.MAX_VALUE)
            val asked = AtomicInteger()
            val watched = object : Thread() {
                override fun getStackTrace(): Array<StackTraceElement> {
                    // The first call is noted.
                    if (asked.incrementAndGet() == 2) println("asks")
                    return late.stackTrace
                }
            }
            val sampler = StackSampler(app, watched, Watched(), 1)
            Thread(sampler).start()
            Thread { while (true) sampler.watch() }.start()
            while (true) workOfLate()
        }

        private fun workOfLate() = Thread.onSpinWait()
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
                    state.readState()
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
        var alive = 0
        var named = 0
        repeat(THREADS) { number ->
            val begun = CountDownLatch(1)
            val work = WORKS[number % WORKS.size]
            val thread = Thread({ begun.countDown(); work.second() }, "short")
            thread.start()
            begun.await()
            // At another moment of its life each time.
            repeat(number % 7 * 40) { Thread.onSpinWait() }
            val stack = thread.stackTrace
            if (stack.isNotEmpty()) {
                alive++
                assertEquals("the outermost frame of another thread", "java.lang.Thread", stack.last().className)
                val methods = stack.map { it.methodName }.filter { it.startsWith("work") }
                if (methods.isNotEmpty()) named++
                assertTrue("$methods in a thread of ${work.first}", methods.all { it == work.first })
            }
            writer.beginRow()
            writer.write(stack, 0, 0)
        }
        stop.set(true)
        crowd.forEach { it.join() }
        garbage.join()
        println("$THREADS threads: $alive seen alive, $named in their work")
        assertTrue("no thread was seen in its work", named > 0)
        assertEquals('?', ProcMainState(Int.MAX_VALUE).use { it.readState(); it.state })
    }

    private fun crowdWork(stop: AtomicBoolean) {
        while (!stop.get()) workOfCrowd()
    }

    private fun workOfCrowd() = Thread.sleep(20)

    private companion object {
        /** More by hand: the environment variable `TRACETEE_STACK_KILLS` (100 take a minute). */
        val KILLS: Int = System.getenv("TRACETEE_STACK_KILLS")?.toInt() ?: 10

        /** More by hand: the environment variable `TRACETEE_STACK_THREADS` (100,000 take minutes). */
        val THREADS: Int = System.getenv("TRACETEE_STACK_THREADS")?.toInt() ?: 1_000

        /** Functions of short threads, by name. */
        val WORKS = listOf<Pair<String, () -> Unit>>("workA" to ::workA, "workB" to ::workB, "workC" to ::workC)
        fun workA() = Thread.yield()
        fun workB() = repeat(50) { Thread.onSpinWait() }
        fun workC() = ByteArray(1 shl 16).fill(1)
    }
}
