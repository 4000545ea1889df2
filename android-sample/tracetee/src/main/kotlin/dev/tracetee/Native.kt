// The natives of libtracetee.so (agent/src/ffi/jni/mod.rs registers them; a signature that differs is a failure there).
package dev.tracetee

/**
 * The agent. What returns a text returns the error's, and null when there was none.
 *
 * Never called before [load] has said yes.
 */
internal object Native {
    @Volatile
    private var loaded: Boolean? = null

    /** Why [load] said no. */
    @Volatile
    var loadError: String? = null
        private set

    val isLoaded: Boolean get() = loaded == true

    /** Loads the library, once. No failure of it leaves here: an app without it goes on as it is. */
    @Synchronized
    fun load(): Boolean = loaded ?: try {
        System.loadLibrary("tracetee")
        // The first native that is called tells whether they were registered.
        isRecording()
        true
    } catch (error: LinkageError) {
        loadError = error.toString()
        false
    } catch (error: SecurityException) {
        loadError = error.toString()
        false
    }.also { loaded = it }

    @JvmStatic external fun install(json: String): String?
    @JvmStatic external fun uninstall(): String?
    @JvmStatic external fun start(json: String): String?
    @JvmStatic external fun stop(): String?
    @JvmStatic external fun dump(path: String): String?

    /** JSON; null where there was no capture. */
    @JvmStatic external fun health(): String?
    @JvmStatic external fun offerConfig(config: ByteArray, signature: ByteArray?): String?
    @JvmStatic external fun trigger(name: String): String?
    @JvmStatic external fun open(window: String): String?
    @JvmStatic external fun close(window: String): String?
    @JvmStatic external fun lowMemory(): String?
    @JvmStatic external fun setConsent(given: Boolean): String?
    @JvmStatic external fun setNetwork(json: String): String?
    @JvmStatic external fun setRefreshRate(hz: Double)
    @JvmStatic external fun setScreen(name: String)

    /** [ping] is run once a second, on the agent's thread; null ends it. */
    @JvmStatic external fun watchMain(ping: Runnable?): String?
    @JvmStatic external fun mainIsAlive()
    @JvmStatic external fun isRecording(): Boolean
    @JvmStatic external fun beginSection(name: String)
    @JvmStatic external fun endSection()
    @JvmStatic external fun beginAsync(name: String, cookie: Int)
    @JvmStatic external fun endAsync(name: String, cookie: Int)
    @JvmStatic external fun beginTrack(track: String, name: String, cookie: Int)
    @JvmStatic external fun endTrack(track: String, cookie: Int)
    @JvmStatic external fun counter(name: String, value: Long)
    @JvmStatic external fun instant(name: String)

    /** JSON: what was sent, or `{"error": why}`. */
    @JvmStatic external fun upload(netJson: String?, sender: Sender): String
}
