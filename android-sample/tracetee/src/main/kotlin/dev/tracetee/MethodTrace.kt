package dev.tracetee

import android.os.Trace

/** Begins and ends the sections of instrumented methods. The instrumenter inserts these calls; apps do not call them. */
@PublishedApi
internal object MethodTrace {
    /** Begins the section of the method that has [id] in the mapping file. */
    @JvmStatic
    public fun begin(id: String): Unit = platform(Unit) { Trace.beginSection(id) }

    /** Ends the section that [begin] opened. */
    @JvmStatic
    public fun end(): Unit = platform(Unit) { Trace.endSection() }
}
