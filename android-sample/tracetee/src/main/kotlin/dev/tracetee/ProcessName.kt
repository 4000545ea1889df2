package dev.tracetee

import android.app.Application
import android.content.Context
import android.os.Build
import java.io.File
import java.io.IOException

/** Finds the name of this process; an app may have several processes. */
internal object ProcessName {
    fun of(context: Context): String {
        if (Build.VERSION.SDK_INT >= 28) {
            Application.getProcessName()?.let { return it }
        }
        return try {
            File("/proc/self/cmdline").readText().substringBefore('\u0000').ifEmpty { context.packageName }
        } catch (_: IOException) {
            context.packageName
        }
    }
}
