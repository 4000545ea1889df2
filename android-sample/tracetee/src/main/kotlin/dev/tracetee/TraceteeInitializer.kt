package dev.tracetee

import android.content.Context
import android.content.pm.PackageManager
import android.os.Build
import androidx.startup.Initializer

/**
 * The zero-code way: androidx.startup runs it before the app's own code, with what the manifest's
 * `<application>` says in `<meta-data>`:
 *
 * - `dev.tracetee.COLLECTOR_URL`, `dev.tracetee.TOKEN`, `dev.tracetee.PUBLIC_KEY`: as in [TraceteeConfig]
 * - `dev.tracetee.ENABLED`, `false`: the app calls [Tracetee.install] itself, or not at all
 *
 * Without a collector's address it does nothing.
 */
class TraceteeInitializer : Initializer<Boolean> {
    override fun create(context: Context): Boolean {
        val data = metaData(context) ?: return false
        val url = data.getString("dev.tracetee.COLLECTOR_URL")
        if (url == null || !data.getBoolean("dev.tracetee.ENABLED", true)) return false
        return Tracetee.install(
            context,
            TraceteeConfig(
                collectorUrl = url,
                token = data.getString("dev.tracetee.TOKEN"),
                publicKey = data.getString("dev.tracetee.PUBLIC_KEY"),
            ),
        )
    }

    override fun dependencies(): List<Class<out Initializer<*>>> = emptyList()

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
