// Samples the main thread's callstack while it is late.
package dev.tracetee

import android.app.ActivityManager
import android.content.Context
import android.os.Handler
import android.os.Looper
import android.os.Message
import android.os.Process
import java.io.File
import java.util.concurrent.locks.LockSupport

/**
 * A thread that detects whether the main thread is late, and then samples its callstack every 20 ms.
 *
 * **Late.** After the main thread has used processor time, a message is put at the front of its queue, which it answers
 * after the previous message. If it has not answered after `after_ms`, it is late. While it sleeps in its loop (`schedstat`
 * shows this), nothing is sent. Records do not cost more, and the app's own observers of frames and messages stay in place.
 * A message that is not a frame is sampled once, then again after 200 ms.
 *
 * **Safety.** `Thread.getStackTrace` stops the main thread, and ART aborts an app whose thread does not stop for seconds. So
 * the kernel is asked first: no stack is requested while the thread is in state `D`, or is ready to run without a processor,
 * or in the background. After a call of more than 50 ms, no call is made for a hundred times as long. A version of the app
 * that died twice in a call that did not return makes no more calls ([StackAttempts], [watch]). The configuration's `stacks`
 * turns it on, for a share of the devices.
 */
internal class StackSampler(
    private val app: App,
    private val main: Thread,
    private val state: MainState,
    tid: Int,
    private val maxCallNs: Long = MAX_CALL_NS,
) : Runnable {
    /** The sampler's interface to the app and the agent; tests replace it. */
    internal interface App {
        /** See [Native.stacks]. */
        fun settings(): Int

        /** CLOCK_BOOTTIME, ns. */
        fun nowNs(): Long

        /** Runs [answer] on the main thread before all waiting messages. Returns false if it cannot. */
        fun ask(answer: Runnable): Boolean

        /** True if the main thread, which calls this, has another message to handle at once. */
        fun hasMore(): Boolean

        /** True if the user sees the app. */
        fun isInFront(): Boolean

        /** See [StackAttempts.mayCall], [StackAttempts.noteStuck] and [StackAttempts.noteBack]. */
        fun mayCall(): Boolean
        fun noteStuck()
        fun noteBack()
        fun sleep(ns: Long)
    }

    private val writer = StackWriter(tid)

    /** Time of the main thread's answer; 0 until it answers. */
    @Volatile
    private var answeredNs = 0L

    /** False if the answer came between two messages and the next one has begun since. */
    @Volatile
    private var isIdle = false
    private val answer = Runnable {
        isIdle = !app.hasMore()
        answeredNs = app.nowNs()
        LockSupport.unpark(thread)
    }
    private var thread: Thread? = null

    /** Time at which the main thread was last seen between two messages. */
    private var freeNs = 0L
    private var askedNs = 0L
    private var askedCpuNs = 0L

    /** Processor time of the main thread when it last went to sleep in its loop. */
    private var knownCpuNs = -1L
    private var quiet = 0
    private var left = 0

    /** Start of the current call; 0 between calls. */
    @Volatile
    private var callNs = 0L
    private var hasCalled = false

    /** Time before which no stack is requested, and the reason. */
    private var pauseNs = 0L
    private var pause = ""

    /** Reason why no more stacks are requested. */
    @Volatile
    internal var ended: String? = null
        private set

    override fun run() {
        try {
            thread = Thread.currentThread()
            freeNs = app.nowNs()
            left = app.settings() and 0xffff
            while (ended == null) {
                val settings = app.settings()
                if (settings == 0) return
                turn((settings ushr 16) * MS)
            }
        } catch (error: Throwable) {
            // Memory may be short, or the platform a stub.
            ended = "$error"
            warn("samples no callstacks any more: $error")
        }
    }

    private fun turn(afterNs: Long) {
        val now = app.nowNs()
        if (askedNs == 0L) {
            state.readTime()
            if (state.cpuNs == knownCpuNs) {
                // It sleeps, or waits in its message; the message before the sleep was answered.
                freeNs = now
                quiet++
                return app.sleep(if (quiet > QUIET_TURNS) QUIET_TIMES * afterNs / 2 else afterNs / 2)
            }
            quiet = 0
            answeredNs = 0
            askedCpuNs = state.cpuNs
            if (!app.ask(answer)) return app.sleep(afterNs)
            askedNs = now
            return app.sleep(afterNs)
        }
        if (takeAnswer()) return app.sleep(afterNs / 2)
        if (now - askedNs < afterNs) return app.sleep(afterNs - (now - askedNs))
        late(afterNs)
        while (!takeAnswer() && app.settings() != 0) app.sleep(afterNs / 2)
    }

    private fun takeAnswer(): Boolean {
        val at = answeredNs
        if (at == 0L) return false
        freeNs = at
        askedNs = 0
        // The processor time that the answer itself has used does not count as work.
        state.readTime()
        knownCpuNs = if (isIdle) state.cpuNs else -1
        return true
    }

    /** Notes a call that does not return: ART aborts an app whose thread does not stop for ten seconds. Called once a second, on the agent's thread. */
    fun watch() {
        val began = callNs
        if (began == 0L || app.nowNs() - began < STUCK_NS) return
        app.noteStuck()
        if (callNs != began) app.noteBack()
    }

    /** Samples until the main thread answers. */
    private fun late(afterNs: Long) {
        if (left <= 0 || !app.isInFront()) return
        if (!app.mayCall()) return end("earlier samples of this version of the app did not return")
        var seenNs = app.nowNs()
        writer.beginRow()
        var sinceNs = freeNs
        var said: String? = null
        // The thread has run if its processor time has grown since the question.
        var cpuNs = askedCpuNs
        while (answeredNs == 0L && left > 0 && app.settings() != 0) {
            val begin = app.nowNs()
            if (begin - seenNs >= SEEN_NS) {
                if (!app.isInFront()) return
                seenNs = begin
            }
            state.readState()
            state.readTime()
            val why = if (begin < pauseNs) pause else refusal(state.state, state.cpuNs > cpuNs)
            cpuNs = state.cpuNs
            if (why != null) {
                if (why != said) writer.note(why)
                said = why
                sinceNs = begin
                app.sleep(PERIOD_NS)
                continue
            }
            val isFrame = sample(sinceNs)
            sinceNs = begin
            val isOpenNs = begin - freeNs
            val next = if (isFrame || isOpenNs >= DISPATCH_NS) PERIOD_NS else DISPATCH_NS - isOpenNs
            waitForAnswer(begin + next.coerceAtLeast(PERIOD_NS))
        }
    }

    /** Takes one sample. Returns true if the main thread is drawing a frame. */
    private fun sample(sinceNs: Long): Boolean {
        val begin = app.nowNs()
        val isFirst = !hasCalled
        hasCalled = true
        // If a call crashes ART at once, the first one does.
        if (isFirst) app.noteStuck()
        callNs = begin
        val frames = try {
            main.stackTrace
        } finally {
            callNs = 0
            if (isFirst || app.nowNs() - begin >= STUCK_NS) app.noteBack()
        }
        val end = app.nowNs()
        val tookNs = end - begin
        if (tookNs > maxCallNs) {
            pauseNs = end + PAUSE_TIMES * tookNs
            pause = "a call took ${tookNs / MS} ms: none for ${PAUSE_TIMES * tookNs / MS} ms"
        }
        // The stack may be of another message, whose begin is unknown.
        if (answeredNs != 0L || frames.isEmpty()) return false
        left--
        // The main thread stops late in the call, which waits for it.
        val isFrame = writer.write(frames, app.nowNs() - end, (end - sinceNs).coerceAtLeast(0))
        if (left == 0) writer.note("the most samples of a recording")
        return isFrame
    }

    /** Waits until a time, in steps, because the row of samples may end long before. */
    private fun waitForAnswer(untilNs: Long) {
        while (answeredNs == 0L) {
            val rest = untilNs - app.nowNs()
            if (rest <= 0) return
            app.sleep(rest.coerceAtMost(PERIOD_NS))
        }
    }

    private fun end(why: String) {
        ended = why
        writer.note(why)
    }

    /** Returns why a thread in this state must not be stopped; null if it may. */
    private fun refusal(state: Char, hasRun: Boolean): String? = when {
        state == 'S' || state == 'R' && hasRun -> null
        state == 'R' -> "the main thread gets no processor"
        state == 'D' -> "the main thread waits in the kernel"
        else -> "the main thread is in state $state"
    }

    internal companion object {
        private const val MS = 1_000_000L
        private const val PERIOD_NS = 20 * MS
        private const val DISPATCH_NS = 200 * MS
        private const val MAX_CALL_NS = 50 * MS

        /** Long calls take at most one hundredth of the time. */
        private const val PAUSE_TIMES = 100

        /** A call that takes this long may end the process. */
        internal const val STUCK_NS = 500 * MS

        /** Interval at which the system is asked whether the user sees an app whose main thread stays late. */
        private const val SEEN_NS = 500 * MS

        /** After this many turns without work, the state is read this many times less often. */
        private const val QUIET_TURNS = 120
        private const val QUIET_TIMES = 4

        private var running: Thread? = null
        private var last: StackSampler? = null
        private var theApp: AndroidApp? = null

        /** Starts the thread if a recording wants samples, and none runs. Called once a second, on the agent's thread. */
        @Synchronized
        fun startIfWanted(context: Context): Unit = platform(Unit) {
            last?.watch()
            if (Native.stacks() == 0 || running?.isAlive == true || last?.ended != null) return
            val app = theApp ?: AndroidApp(context, attempts(context)).also { theApp = it }
            // The first thread of the process has its id.
            val tid = Process.myPid()
            val state = ProcMainState(tid)
            val sampler = StackSampler(app, Looper.getMainLooper().thread, state, tid)
            last = sampler
            running = Thread({ state.use { sampler.run() } }, "tracetee-stacks").apply {
                isDaemon = true
                start()
            }
        }

        /** The processes of an app share the directory. Each installation of the app is a version. */
        private fun attempts(context: Context): StackAttempts {
            val name = "stacks-" + ProcessName.of(context).map { if (it.isLetterOrDigit()) it else '-' }.joinToString("").takeLast(100)
            val version = context.packageManager.getPackageInfo(context.packageName, 0).lastUpdateTime
            return StackAttempts(File(Tracetee.directory(context), name), "$version")
        }
    }
}

/** The app on Android. */
internal class AndroidApp(private val context: Context, private val attempts: StackAttempts) : StackSampler.App {
    private val handler = Handler(Looper.getMainLooper())
    private val info = ActivityManager.RunningAppProcessInfo()

    override fun settings(): Int = Native.stacks()
    override fun nowNs(): Long = Native.nowNs()

    override fun ask(answer: Runnable): Boolean {
        val message = Message.obtain(handler, answer)
        // The view system holds all other messages back until its frame.
        if (android.os.Build.VERSION.SDK_INT >= 22) message.isAsynchronous = true
        return handler.sendMessageAtFrontOfQueue(message)
    }

    override fun hasMore(): Boolean =
        android.os.Build.VERSION.SDK_INT >= 23 && !Looper.getMainLooper().queue.isIdle

    override fun isInFront(): Boolean = platform(false) {
        ActivityManager.getMyMemoryState(info)
        info.importance <= ActivityManager.RunningAppProcessInfo.IMPORTANCE_FOREGROUND
    }

    override fun mayCall(): Boolean = attempts.mayCall()
    override fun noteStuck(): Unit = attempts.noteStuck()
    override fun noteBack(): Unit = attempts.noteBack()
    override fun sleep(ns: Long): Unit = LockSupport.parkNanos(this, ns)
}
