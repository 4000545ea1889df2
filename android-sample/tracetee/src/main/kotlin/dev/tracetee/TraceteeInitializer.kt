package dev.tracetee

import android.content.Context
import android.content.pm.PackageManager
import android.os.Build
import androidx.startup.Initializer

/**
 * Installs the agent without code in the app. androidx.startup runs it before `Application.onCreate`. It reads
 * `<meta-data>` of the manifest's `<application>`:
 *
 * - `dev.tracetee.COLLECTOR_URL`, `dev.tracetee.TOKEN`, `dev.tracetee.PUBLIC_KEY`: as in [TraceteeConfig.Builder]
 * - `dev.tracetee.FRAME_VERDICTS`: as [TraceteeConfig.Builder.setFrameVerdicts]
 * - `dev.tracetee.ENABLED`: `false` disables this initializer
 *
 * Without a collector URL it does nothing.
 */
public class TraceteeInitializer : Initializer<Outcome> {
    override fun create(context: Context): Outcome {
        val config = platform(null) { config(context) }
            ?: return Outcome.failed("the manifest has no dev.tracetee.COLLECTOR_URL, or dev.tracetee.ENABLED is false")
        return Tracetee.install(context, config)
    }

    override fun dependencies(): List<Class<out Initializer<*>>> = emptyList()

    private fun config(context: Context): TraceteeConfig? {
        val data = metaData(context) ?: return null
        val url = data.getString("dev.tracetee.COLLECTOR_URL")
        if (url == null || !data.getBoolean("dev.tracetee.ENABLED", true)) return null
        return TraceteeConfig.Builder()
            .setCollectorUrl(url)
            .setToken(data.getString("dev.tracetee.TOKEN"))
            .setPublicKey(data.getString("dev.tracetee.PUBLIC_KEY"))
            .setFrameVerdicts(data.getBoolean("dev.tracetee.FRAME_VERDICTS"))
            .build()
    }

    private fun metaData(context: Context) = try {
        val manager = context.packageManager
        if (Build.VERSION.SDK_INT >= 33) {
            manager.getApplicationInfo(context.packageName, PackageManager.ApplicationInfoFlags.of(PackageManager.GET_META_DATA.toLong())).metaData
        } else {
            @Suppress("DEPRECATION")
            manager.getApplicationInfo(context.packageName, PackageManager.GET_META_DATA).metaData
        }
    } catch (_: PackageManager.NameNotFoundException) {
        null
    }
}
