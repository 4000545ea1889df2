// Calls into the platform that must not reach the app as exceptions.
package dev.tracetee

import android.util.Log

/**
 * Runs [call], which uses the platform, and returns [otherwise] if it fails. In an app's unit tests on a JVM the methods
 * of android.jar are stubs: they throw, or return null and 0 with `returnDefaultValues`.
 */
internal inline fun <T> platform(otherwise: T, call: () -> T): T = try {
    call()
} catch (_: Exception) {
    otherwise
} catch (_: LinkageError) {
    otherwise
}

/** Logs a warning under the tag of the library. */
internal fun warn(text: String) {
    platform(0) { Log.w("tracetee", text) }
}
