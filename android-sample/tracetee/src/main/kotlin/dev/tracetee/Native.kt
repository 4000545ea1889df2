// The native methods of libtracetee.so. Its JNI_OnLoad registers them, and fails if a signature differs.
package dev.tracetee

/**
 * Native methods of the agent. A method that returns `String?` returns an error message, or null on success,
 * unless its comment says otherwise.
 *
 * Call none of them before [load] has returned true.
 */
internal object Native {
    @Volatile
    private var loaded: Boolean? = null

    /** The error that made [load] return false. */
    @Volatile
    var loadError: String? = null
        private set

    val isLoaded: Boolean get() = loaded == true

    /** True while a capture is recording. The agent sets it after it has installed hooks and tags, and clears it before it removes them. */
    @JvmField
    @Volatile
    var recording: Boolean = false

    /** True if coroutines are traced by the configuration at the app's start. The agent sets it. */
    @JvmField
    @Volatile
    var coroutines: Boolean = false

    /** True if the ledger counts. The agent sets it. */
    @JvmField
    @Volatile
    var ledger: Boolean = false

    /** The agent begins a capture of [window] with this [id]; it calls this on its thread. */
    @JvmStatic
    fun captureBegun(window: String, id: String): Unit = Profiling.captureBegun(window, id)

    /** Loads the library once and returns true if it is loaded. Never throws: the app continues without the library. */
    @Synchronized
    fun load(): Boolean = loaded ?: try {
        System.loadLibrary("tracetee")
        // Fails with UnsatisfiedLinkError if the library has not registered the native methods.
        isRecording()
        true
    } catch (error: LinkageError) {
        loadError = error.toString()
        false
    } catch (error: SecurityException) {
        loadError = error.toString()
        false
    }.also { loaded = it }

    /** Returns the version of libtracetee.so. */
    @JvmStatic external fun version(): String
    @JvmStatic external fun install(json: String): String?
    @JvmStatic external fun uninstall(): String?
    @JvmStatic external fun start(json: String): String?
    @JvmStatic external fun stop(): String?
    @JvmStatic external fun dump(path: String): String?

    /** Passes on the blocks of a streamed capture until it is over, or until this is called with null on another thread. */
    @JvmStatic external fun listen(listener: BlockListener?): String?

    /** Returns the health report as JSON, or null if no capture has been started. */
    @JvmStatic external fun health(): String?
    @JvmStatic external fun offerConfig(config: ByteArray, signature: ByteArray?): String?
    @JvmStatic external fun trigger(name: String): String?
    @JvmStatic external fun open(window: String): String?
    @JvmStatic external fun close(window: String): String?
    @JvmStatic external fun lowMemory(): String?

    /** Takes `{"exits": […]}`. Returns the ids of the captures with these exits, as JSON; null if it fails. Waits for recovery. */
    @JvmStatic external fun exits(json: String): String?
    @JvmStatic external fun setConsent(given: Boolean): String?
    @JvmStatic external fun setNetwork(json: String): String?
    @JvmStatic external fun setRefreshRate(hz: Double)
    @JvmStatic external fun setScreen(name: String)

    /** Counts [count] frames, at most 256, by two words each (FrameLedger.kt), at this value of `System.nanoTime`. */
    @JvmStatic external fun countFrames(words: LongArray, count: Int, nowNs: Long)

    /** Counts a start: 0 cold, 1 warm, 2 hot. Times in ms until the first frame, and until the app was fully drawn; negative: unknown. */
    @JvmStatic external fun countStart(kind: Int, ttidMs: Long, ttfdMs: Long)

    /** Reports that the app is visible from now on, or hidden. */
    @JvmStatic external fun setVisible(isVisible: Boolean)

    /** Runs [ping] once a second on the agent's thread, until it is called with null. */
    @JvmStatic external fun watchMain(ping: Runnable?): String?
    @JvmStatic external fun mainIsAlive()
    @JvmStatic external fun isRecording(): Boolean

    /** Returns how [StackSampler] samples: the ms after which the main thread is late, times 65536, and the most samples; 0: not. */
    @JvmStatic external fun stacks(): Int
    @JvmStatic external fun beginSection(name: String)
    @JvmStatic external fun endSection()
    @JvmStatic external fun beginAsync(name: String, cookie: Int)
    @JvmStatic external fun endAsync(name: String, cookie: Int)
    @JvmStatic external fun beginTrack(track: String, name: String, cookie: Int)
    @JvmStatic external fun endTrack(track: String, cookie: Int)
    @JvmStatic external fun counter(name: String, value: Long)
    @JvmStatic external fun instant(name: String)

    /** Records [length] bytes that [Event] has laid out in [bytes] from [offset] on. */
    @JvmStatic external fun record(bytes: ByteArray, offset: Int, length: Int)

    /** Returns the time of CLOCK_BOOTTIME, ns. */
    @JvmStatic external fun nowNs(): Long

    /** Uploads through [sender]. Returns a report as JSON, or `{"error": message}`. */
    @JvmStatic external fun upload(netJson: String?, sender: NativeSender): String
}
