// The entry point of the no-op artifact: the functions of the library's Tracetee.kt, none of which does anything.
package dev.tracetee

import android.content.Context
import java.io.File

/**
 * Stands in for the agent's entry point in a build without an agent. No function has an effect: those that return
 * an [Outcome] fail, and it says why.
 */
public object Tracetee {
    private const val NO_AGENT = "this build has dev.tracetee:tracetee-noop, which has no agent"

    /** The outcome of every call. */
    internal val failed: Outcome = Outcome.failed(NO_AGENT)

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

    /** Fails. */
    @JvmStatic
    public fun install(context: Context): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun install(context: Context, config: TraceteeConfig): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun uninstall(): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun offerConfig(json: ByteArray, signature: ByteArray?): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun trigger(name: String): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun openWindow(id: String): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun closeWindow(id: String): Outcome = failed

    /** Fails; the answer is not stored. */
    @JvmStatic
    public fun setConsent(given: Boolean): Outcome = failed

    /** Does nothing. */
    @JvmStatic
    public fun setScreen(name: String): Unit = Unit

    /** Returns null. */
    @JvmStatic
    public fun countFrames(startNs: Long, endNs: Long): FrameCounts? = null

    /** Fails. */
    @JvmStatic
    public fun startCapture(): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun startCapture(options: CaptureOptions): Outcome = failed

    /** Fails. */
    @JvmStatic
    public fun stopCapture(): Outcome = failed

    /** Fails and writes no file. */
    @JvmStatic
    public fun dump(file: File): Outcome = failed

    /** Fails and calls nothing. */
    @JvmStatic
    public fun listen(listener: BlockListener): Outcome = failed

    /** Does nothing. */
    @JvmStatic
    public fun stopListening(): Unit = Unit

    /** Returns null. */
    @JvmStatic
    public fun health(): HealthReport? = null

    /** Sends nothing and returns [UploadResult.Failed]. */
    @JvmStatic
    public fun upload(context: Context): UploadResult = UploadResult.Failed(NO_AGENT)
}
