package dev.tracetee

import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.net.ConnectivityManager
import android.net.NetworkCapabilities
import android.os.BatteryManager
import android.os.Build
import android.os.PowerManager
import org.json.JSONObject

/**
 * Describes network and power for the agent's upload policy, as JSON: `network` (`none`, `metered` or
 * `unmetered`), `roaming`, `charging`, `battery_percent`, `power_save`. Omits a field that is unknown; the policy
 * then assumes the costlier case.
 */
internal object NetState {
    fun of(context: Context): JSONObject {
        val state = JSONObject()
        val app = context.applicationContext ?: context
        try {
            network(app, state)
            power(app, state)
        } catch (_: SecurityException) {
            // The app's manifest removes ACCESS_NETWORK_STATE.
        } catch (_: RuntimeException) {
            // A system service that has died throws.
        }
        return state
    }

    @Suppress("DEPRECATION")
    private fun network(context: Context, state: JSONObject) {
        val manager = context.getSystemService(Context.CONNECTIVITY_SERVICE) as? ConnectivityManager ?: return
        val info = manager.activeNetworkInfo
        if (info == null || !info.isConnected) {
            state.put("network", "none")
            return
        }
        state.put("network", if (manager.isActiveNetworkMetered) "metered" else "unmetered")
        var roaming = info.isRoaming
        if (Build.VERSION.SDK_INT >= 28) {
            val capabilities = manager.getNetworkCapabilities(manager.activeNetwork)
            if (capabilities != null) {
                roaming = !capabilities.hasCapability(NetworkCapabilities.NET_CAPABILITY_NOT_ROAMING)
            }
        }
        state.put("roaming", roaming)
    }

    private fun power(context: Context, state: JSONObject) {
        val battery = context.registerReceiver(null, IntentFilter(Intent.ACTION_BATTERY_CHANGED))
        if (battery != null) {
            val level = battery.getIntExtra(BatteryManager.EXTRA_LEVEL, -1)
            val scale = battery.getIntExtra(BatteryManager.EXTRA_SCALE, -1)
            if (level >= 0 && scale > 0) state.put("battery_percent", level * 100 / scale)
            state.put("charging", battery.getIntExtra(BatteryManager.EXTRA_PLUGGED, 0) != 0)
        }
        val manager = context.getSystemService(Context.POWER_SERVICE) as? PowerManager
        if (manager != null) state.put("power_save", manager.isPowerSaveMode)
    }
}
