// The library's entry point: installs the agent and controls it. AppHooks.kt connects it to the app.
package dev.tracetee

import android.content.Context
import android.content.pm.ApplicationInfo
import android.os.Build
import java.io.File
import org.json.JSONObject

/**
 * Controls the agent of this process.
 *
 * No function throws, not even in unit tests on a JVM. A function that fails returns an [Outcome] with the reason, and logs
 * it under the tag `tracetee`; the app continues untraced. All functions may be called on any thread. Those marked
 * "blocking" take locks or access files.
 */
public object Tracetee {
    private const val DIRECTORY = "tracetee"
    private const val NOT_INSTALLED = "the agent is not installed"

    /** Hardware names of Android's emulators: the current one and its predecessor. */
    private val EMULATORS = setOf("ranchu", "goldfish")

    @Volatile
    private var config: TraceteeConfig? = null

    /** Version of the agent's native library, such as `0.1.0`; null if it is not loaded. */
    @JvmStatic
    public val version: String? get() = if (Native.isLoaded) Native.version() else null

    /** True after [install] has succeeded, until [uninstall]. */
    @JvmStatic
    public val isInstalled: Boolean get() = config != null

    /**
     * True while a capture is recording; use it to skip the computation of names. Reads a volatile field while nothing is
     * recorded, and asks the agent otherwise.
     */
    @JvmStatic
    public val isRecording: Boolean get() = Native.recording && Native.isRecording()

    /**
     * True if the configuration at the app's start has coroutine tracing on (`"coroutines": {"on": true}`). A change of the
     * configuration takes effect at the next start. `CoroutineTracing.isEnabled` follows it, unless the app sets that.
     */
    @JvmStatic
    public val isCoroutineTracingOn: Boolean get() = Native.coroutines

    /** Installs the agent with default settings. See the other overload. */
    @JvmStatic
    public fun install(context: Context): Outcome = install(context, TraceteeConfig.Builder().build())

    /**
     * Installs the agent. From then on the remote configuration starts and ends captures. Call it in
     * `Application.attachBaseContext`, so that the app's start can be captured. A second call does nothing and succeeds.
     *
     * The calling thread loads the native library, asks the package manager for the app's version and checks the settings. A
     * thread of the agent reads and writes all files. The calling thread waits for it only if the configuration of the last
     * run may record something from the app's start on: at most 3 ms for files ([TraceteeConfig.Builder.setStartWaitMs]),
     * and installs the hooks meanwhile. If they are installed later, the capture and [health] say so (`late_start`). Your
     * own sections are recorded from the return of this call on; records that the configuration forbids are discarded.
     *
     * @return done if the agent is installed. If it cannot use its files later, [health] has the reason. The log has each
     * remote configuration that it refuses
     */
    @JvmStatic
    @Synchronized
    public fun install(context: Context, config: TraceteeConfig): Outcome {
        if (isInstalled) return Outcome.DONE
        if (!Native.load()) return failed("load libtracetee.so", Native.loadError)
        val outcome = try {
            val settings = settings(context, config)
            val installed = outcome("install", Native.install(settings.toString()))
            if (!installed.isDone) return installed
            this.config = config
            Profiling.start(context, settings)
            Deaths.start(context, settings)
            config.remoteConfig?.let { offerConfig(it.toByteArray(), null) }
            installed
        } catch (error: Exception) {
            failed("install", error.toString())
        }
        val uploads = config.scheduleUploads && config.collectorUrl != null
        if (outcome.isDone) AppHooks.attach(context, uploads, config.frameVerdicts)
        return outcome
    }

    /** Uninstalls the agent: keeps an open capture, restores the tags and removes the hooks. Blocking. */
    @JvmStatic
    @Synchronized
    public fun uninstall(): Outcome {
        if (!isInstalled) return failed("uninstall", NOT_INSTALLED)
        config = null
        Profiling.stop()
        Deaths.stop()
        AppHooks.detach()
        return outcome("uninstall", Native.uninstall())
    }

    // ---- captures by remote configuration ----

    /** Passes a remote configuration that the app has fetched, as JSON, with its detached signature if it is signed. */
    @JvmStatic
    public fun offerConfig(json: ByteArray, signature: ByteArray?): Outcome =
        ask("offer a configuration") { Native.offerConfig(json, signature) }

    /** Fires the triggers `{"custom": {"name": name}}` of the configuration. */
    @JvmStatic
    public fun trigger(name: String): Outcome = ask("fire a trigger") { Native.trigger(name) }

    /**
     * Opens the window [id]; its configuration says `"opens": "manual"`. While another window is captured, [id] waits
     * until that has ended, and its capture says how long. An open window stays open.
     *
     * Waits for the agent's thread only while that starts or carries out an earlier call, at most 100 ms.
     *
     * @return done if the window will be recorded; otherwise the reason: a cool-down, a budget, no consent, no such window
     * in the configuration, another window that is already waiting
     */
    @JvmStatic
    public fun openWindow(id: String): Outcome = ask("open a window") { Native.open(id) }

    /**
     * Closes the window [id], which [openWindow] opened.
     *
     * @return an error if the window was still waiting for another one: it then does not open, and nothing was recorded
     */
    @JvmStatic
    public fun closeWindow(id: String): Outcome = ask("close a window") { Native.close(id) }

    /**
     * Sets the user's consent, which the agent remembers. If [given] is false, the agent stops recording and
     * deletes the captures that wait on the device.
     */
    @JvmStatic
    public fun setConsent(given: Boolean): Outcome = ask("set consent") { Native.setConsent(given) }

    /**
     * Sets the name of the current screen. The library reports activities itself; call this for screens within one, or use
     * the adapters of Navigation, fragments, Flutter and React Native (docs/FRAMEWORKS.md). An activity that returns to the
     * foreground has its last screen. [name] is the kind of screen, "Product" and not "Product 123": after 200 distinct
     * names in a process, further ones count as "(other)".
     */
    @JvmStatic
    public fun setScreen(name: String) {
        if (isInstalled) AppHooks.setScreen(name)
    }

    /**
     * Counts the frames that were due from [startNs] to [endNs], times of `System.nanoTime`, for example of an interaction,
     * a scroll or a screen. It covers the last 4096 frames of the app's activities, whether or not a capture is recording;
     * the platform reports a frame some milliseconds after its end.
     *
     * @return null below API 26, or without [TraceteeConfig.Builder.setFrameVerdicts]
     */
    @JvmStatic
    public fun countFrames(startNs: Long, endNs: Long): FrameCounts? = FrameWatch.log?.count(startNs, endNs)

    // ---- manual captures ----

    /** Starts a manual capture with default options. Needs no [install]. Blocking. */
    @JvmStatic
    public fun startCapture(): Outcome = startCapture(CaptureOptions.Builder().build())

    /** Starts a manual capture with [options]. Needs no [install]. Blocking. */
    @JvmStatic
    public fun startCapture(options: CaptureOptions): Outcome {
        if (!Native.load()) return failed("load libtracetee.so", Native.loadError)
        return outcome("start a capture", Native.start(options.toJson().toString()))
    }

    /** Stops the manual capture; its records stay for [dump]. Blocking. */
    @JvmStatic
    public fun stopCapture(): Outcome = ask("stop a capture") { Native.stop() }

    /** Writes the manual capture to [file] as ftrace text, compressed with zstd if the name ends in `.zst`. Blocking. */
    @JvmStatic
    public fun dump(file: File): Outcome = ask("write a trace") { Native.dump(file.path) }

    /**
     * Passes a capture of [CaptureOptions.Mode.ENDLESS] to [listener] while it is recorded: each block of text, after it was
     * written to the capture's file, after a second at the latest. The blocks in order are the trace's text.
     *
     * Runs on the calling thread, which is not recorded during the call, until the capture's last block, or until
     * [stopListening]. Called before [startCapture], it waits for the capture and gets its first block, too. The recording
     * never waits for [listener].
     *
     * @return an error if another thread listens, or if [listener] threw an exception, which ends the listening
     */
    @JvmStatic
    public fun listen(listener: BlockListener): Outcome =
        if (Native.load()) outcome("listen", Native.listen(listener)) else failed("load libtracetee.so", Native.loadError)

    /** Ends [listen] after the current call; waiting blocks are not delivered. A listener may call it, too. */
    @JvmStatic
    public fun stopListening() {
        if (Native.isLoaded) Native.listen(null)
    }

    /** Returns the health report, which explains empty traces and lost captures; null if there is none. Blocking. */
    @JvmStatic
    public fun health(): HealthReport? = if (Native.isLoaded) Native.health()?.let { healthReport(Deaths.addTo(Profiling.addTo(it))) } else null

    // ---- uploads ----

    /**
     * Uploads the captures that the policy allows now. Blocks the calling thread, possibly for minutes. Only an app
     * that has called [TraceteeConfig.Builder.setScheduleUploads] with false needs this, for example in a `Worker`
     * with a network constraint.
     */
    @JvmStatic
    public fun upload(context: Context): UploadResult {
        val sender = config?.sender ?: return UploadResult.Failed(NOT_INSTALLED)
        val report = Native.upload(NetState.of(context).toString(), NativeSender(sender))
        // The upload may have fetched another configuration.
        Profiling.refresh()
        Deaths.refresh()
        return uploadResult(report)
    }

    // ---- internals ----

    internal fun settings(context: Context, config: TraceteeConfig): JSONObject {
        val app = context.packageName
        val info = context.packageManager.getPackageInfo(app, 0)
        val code = if (Build.VERSION.SDK_INT >= 28) {
            info.longVersionCode
        } else {
            @Suppress("DEPRECATION")
            info.versionCode.toLong()
        }
        val directory = directory(context)
        val device = JSONObject().put("model", Build.MODEL).put("brand", Build.MANUFACTURER)
        // Comparisons of versions leave them out.
        if (context.applicationInfo.flags and ApplicationInfo.FLAG_DEBUGGABLE != 0) device.put("debuggable", true)
        if (Build.HARDWARE in EMULATORS) device.put("emulator", true)
        config.device.forEach { (name, value) -> device.put(name, value) }
        val settings = JSONObject()
            .put("directory", directory.absolutePath)
            .put("app", app)
            .put("process", ProcessName.of(context))
            .put("version_code", code)
            .put("api", Build.VERSION.SDK_INT)
            .put("device", device)
        Deaths.addTo(settings)
        info.versionName?.let { settings.put("version_name", it) }
        if (config.segment.isNotEmpty()) settings.put("segment", JSONObject(config.segment))
        config.publicKey?.let { settings.put("public_key", it) }
        config.consent?.let { settings.put("consent", it) }
        config.installId?.let { settings.put("install_id", it) }
        config.startWaitMs?.let { settings.put("start_wait_ms", it) }
        config.collectorUrl?.let { url ->
            val upload = JSONObject().put("url", url).put("transport", "app")
            config.token?.let { upload.put("token", it) }
            settings.put("upload", upload)
        }
        return settings
    }

    /** Returns the agent's directory. The processes of an app share budgets and the spool, so they share it. */
    internal fun directory(context: Context): File = File(noBackupFilesDir(context), DIRECTORY)

    /**
     * The app's directory that Auto Backup excludes: the identifier of the installation and its budgets do not belong on
     * another device. Avoids the disk access with which [Context.getNoBackupFilesDir] creates it.
     */
    private fun noBackupFilesDir(context: Context): File {
        val isElsewhere = Build.VERSION.SDK_INT >= 24 && context.isDeviceProtectedStorage
        val data = context.applicationInfo.dataDir
        return if (isElsewhere || data == null) context.noBackupFilesDir else File(data, "no_backup")
    }

    private inline fun ask(what: String, call: () -> String?): Outcome =
        if (Native.isLoaded) outcome(what, call()) else failed(what, Native.loadError ?: NOT_INSTALLED)

    private fun outcome(what: String, error: String?): Outcome = if (error == null) Outcome.DONE else failed(what, error)

    internal fun failed(what: String, why: String?): Outcome {
        val text = "cannot $what: ${why ?: "unknown"}"
        warn(text)
        return Outcome.failed(text)
    }
}
