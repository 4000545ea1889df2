package dev.tracetee

import android.os.Trace

/** What the instrumenter's code calls, around each method that it has rewritten; nobody else has to. */
object MethodTrace {
    /** @param id the method's number in the mapping file */
    @JvmStatic
    fun begin(id: String) = Trace.beginSection(id)

    @JvmStatic
    fun end() = Trace.endSection()
}
