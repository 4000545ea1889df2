// The library's front: installs the agent and speaks with it. Android's part of it is in AppHooks.kt.
package dev.tracetee

import android.content.Context
import android.os.Build
import android.util.Log
import org.json.JSONObject
import java.io.File

/**
 * The agent of this process.
 *
 * Nothing here throws and nothing harms the app: what does not work is said in the log, in [lastError] and in
 * [health], and the app goes on untraced. All functions may be called from any thread; those that say
 * "blocking" take a lock or read files.
 */
object Tracetee {
    private const val TAG = "tracetee"

    @Volatile
    private var config: TraceteeConfig? = null

    /** Why something did not happen, last. */
    @Volatile
    @JvmStatic
    var lastError: String? = null
        private set

    /** Whether the agent is in this process and has been installed. */
    @JvmStatic
    val isInstalled: Boolean get() = config != null

    /** Whether a capture is recording now: what is worth computing a name for. Costs one native call. */
    @JvmStatic
    val isRecording: Boolean get() = Native.isLoaded && Native.isRecording()

    /**
     * Installs the agent: from here on the remote configuration opens and closes captures. Call it in
     * `Application.attachBaseContext`, so that the app's start can be captured; it takes some milliseconds. A
     * second call does nothing, which is why this and the initializer of androidx.startup do not quarrel.
     *
     * @return whether the agent is installed; [lastError] says why not
     */
    @JvmStatic
    @JvmOverloads
    @Synchronized
    fun install(context: Context, config: TraceteeConfig = TraceteeConfig()): Boolean {
        if (isInstalled) return true
        if (!Native.load()) return failed("load libtracetee.so", Native.loadError)
        val done = try {
            val settings = settings(context, config)
            if (!done("install", Native.install(settings.toString()))) return false
            this.config = config
            config.remoteConfig?.let { offerConfig(it.toByteArray(), null) }
            true
        } catch (error: Exception) {
            failed("install", error.toString())
        }
        if (done) AppHooks.attach(context, uploads = config.uploads && config.collectorUrl != null)
        return done
    }

    /** Ends it: what is open is kept as a capture, tags and hooks are given back. Blocking. */
    @JvmStatic
    @Synchronized
    fun uninstall(): Boolean {
        if (!isInstalled) return failed("uninstall", "it is not installed")
        config = null
        AppHooks.detach()
        return done("uninstall", Native.uninstall())
    }

    // ---- by configuration ----

    /** Offers a configuration that the app has fetched itself, with its detached signature. */
    @JvmStatic
    fun offerConfig(json: ByteArray, signature: ByteArray?): Boolean =
        ask("offer a configuration") { Native.offerConfig(json, signature) }

    /** Fires the triggers `{"custom": {"name": name}}`. */
    @JvmStatic
    fun trigger(name: String): Boolean = ask("fire a trigger") { Native.trigger(name) }

    /** Opens the window of that id, which `"opens": "manual"`. */
    @JvmStatic
    fun openWindow(id: String): Boolean = ask("open a window") { Native.open(id) }

    /** Closes it. */
    @JvmStatic
    fun closeWindow(id: String): Boolean = ask("close a window") { Native.close(id) }

    /** The user consents, or does not any more: then what waits is deleted and nothing is recorded. It stays. */
    @JvmStatic
    fun setConsent(given: Boolean): Boolean = ask("set consent") { Native.setConsent(given) }

    /** The app shows this screen now. Activities are told by themselves; this is for screens inside them. */
    @JvmStatic
    fun setScreen(name: String) {
        if (isInstalled) Native.setScreen(name)
    }

    // ---- by hand ----

    /**
     * Starts a capture by hand, without [install]. Blocking.
     *
     * @param options as `tracetee_start` takes (agent/include/tracetee.h), as JSON
     */
    @JvmStatic
    @JvmOverloads
    fun startCapture(options: String = "{}"): Boolean {
        if (!Native.load()) return failed("load libtracetee.so", Native.loadError)
        return done("start a capture", Native.start(options))
    }

    /** Stops it; what it recorded stays for [dump]. Blocking. */
    @JvmStatic
    fun stopCapture(): Boolean = ask("stop a capture") { Native.stop() }

    /** Writes what the capture recorded as ftrace text, packed by zstd where the name ends so. Blocking. */
    @JvmStatic
    fun dump(file: File): Boolean = ask("write a trace") { Native.dump(file.path) }

    /** The health report, JSON: why a trace is empty is the first question that it answers. Blocking. */
    @JvmStatic
    fun health(): String? = if (Native.isLoaded) Native.health() else null

    // ---- uploads ----

    /**
     * Sends what may be sent now, on this thread, which it may keep for minutes. Only where
     * [TraceteeConfig.uploads] is false has an app to call it: from a `Worker` with a network constraint, say.
     *
     * @return the agent's report as JSON: `delivered`, `held`, `again_s`, `status`; or `error`
     */
    @JvmStatic
    fun upload(context: Context): String {
        val sender = config?.sender ?: return JSONObject().put("error", "it is not installed").toString()
        return Native.upload(NetState.of(context).toString(), sender)
    }

    // ---- inside ----

    internal fun settings(context: Context, config: TraceteeConfig): JSONObject {
        val app = context.packageName
        val info = context.packageManager.getPackageInfo(app, 0)
        val code = if (Build.VERSION.SDK_INT >= 28) {
            info.longVersionCode
        } else {
            @Suppress("DEPRECATION")
            info.versionCode.toLong()
        }
        val process = ProcessName.of(context)
        // Processes of one app share budgets and the spool, so they share the directory.
        val directory = File(context.filesDir, "tracetee")
        val device = JSONObject().put("model", Build.MODEL).put("brand", Build.MANUFACTURER)
        config.device.forEach { (name, value) -> device.put(name, value) }
        val settings = JSONObject()
            .put("directory", directory.absolutePath)
            .put("app", app)
            .put("process", process)
            .put("version_code", code)
            .put("api", Build.VERSION.SDK_INT)
            .put("device", device)
        info.versionName?.let { settings.put("version_name", it) }
        config.publicKey?.let { settings.put("public_key", it) }
        config.consent?.let { settings.put("consent", it) }
        config.installId?.let { settings.put("install_id", it) }
        config.collectorUrl?.let { url ->
            val upload = JSONObject().put("url", url).put("transport", "app").put("tickets", config.tickets)
            config.token?.let { upload.put("token", it) }
            settings.put("upload", upload)
        }
        return settings
    }

    private inline fun ask(what: String, call: () -> String?): Boolean =
        if (Native.isLoaded) done(what, call()) else failed(what, Native.loadError ?: "it is not installed")

    private fun done(what: String, error: String?): Boolean = error == null || failed(what, error)

    private fun failed(what: String, why: String?): Boolean {
        val text = "cannot $what: ${why ?: "unknown"}"
        lastError = text
        Log.w(TAG, text)
        return false
    }
}
