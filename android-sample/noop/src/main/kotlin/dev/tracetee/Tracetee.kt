// The entry point of the no-op artifact: the functions of the library's Tracetee.kt, none of which does anything.
package dev.tracetee

import android.content.Context
import java.io.File

/**
 * Stands in for the agent's entry point in a build without an agent. No function has an effect: those that return
 * success return false, and [lastError] says why.
 */
public object Tracetee {
    private const val NO_AGENT = "this build has dev.tracetee:tracetee-noop, which has no agent"

    /** Message of the last failure; null if no function was called. */
    @Volatile
    @JvmStatic
    public var lastError: String? = null
        private set

    /** Always null. */
    @JvmStatic
    public val version: String? get() = null

    /** Always false. */
    @JvmStatic
    public val isInstalled: Boolean get() = false

    /** Always false. */
    @JvmStatic
    public val isRecording: Boolean get() = false

    /** Always false. */
    @JvmStatic
    public val isCoroutineTracingOn: Boolean get() = false

    /** Returns false. */
    @JvmStatic
    public fun install(context: Context): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun install(context: Context, config: TraceteeConfig): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun uninstall(): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun offerConfig(json: ByteArray, signature: ByteArray?): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun trigger(name: String): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun openWindow(id: String): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun closeWindow(id: String): Boolean = no()

    /** Returns false; nothing remembers the answer. */
    @JvmStatic
    public fun setConsent(given: Boolean): Boolean = no()

    /** Does nothing. */
    @JvmStatic
    public fun setScreen(name: String): Unit = Unit

    /** Returns null. */
    @JvmStatic
    public fun countFrames(startNs: Long, endNs: Long): FrameCounts? = null

    /** Returns false. */
    @JvmStatic
    public fun startCapture(): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun startCapture(options: CaptureOptions): Boolean = no()

    /** Returns false. */
    @JvmStatic
    public fun stopCapture(): Boolean = no()

    /** Returns false and writes no file. */
    @JvmStatic
    public fun dump(file: File): Boolean = no()

    /** Returns false and calls nothing. */
    @JvmStatic
    public fun listen(listener: BlockListener): Boolean = no()

    /** Does nothing. */
    @JvmStatic
    public fun stopListening(): Unit = Unit

    /** Returns null. */
    @JvmStatic
    public fun health(): HealthReport? = null

    /** Sends nothing and returns [UploadResult.Failed]. */
    @JvmStatic
    public fun upload(context: Context): UploadResult = UploadResult.Failed(NO_AGENT)

    private fun no(): Boolean {
        lastError = NO_AGENT
        return false
    }
}
