// Names of Compose's recomposition tracing: without the values of the app's state, and with the reason.
package dev.tracetee.androidx

/**
 * Names a recomposition after the state whose write caused it: `Recompose group because MutableState written in
 * com.example.Feed.refresh`. Compose's `RecompositionTracer` writes an instant for each write, with its call stack, and a
 * section for each recomposition; they share a flow. State has no name, so its class and the place of the write identify it.
 * Values are omitted, because they are user data.
 *
 * Keeps the reasons of the last [SIZE] flows. Called on the threads that compose and that write state.
 */
internal object Recompositions {
    const val CATEGORY: String = "androidx.compose"
    private const val GROUP = "Recompose group"
    private const val DIRECT = "Direct invalidation"
    private const val WRITE = "State write of "
    private const val READ = "State read of "
    private const val SIZE = 1024
    private val ids = LongArray(SIZE)
    private val reasons = arrayOfNulls<String>(SIZE)

    /** Returns the name to record for [name]; [site] is the app's innermost frame of the call stack. */
    fun named(name: String, flowIds: List<Long>?, site: String?): String = when {
        name == GROUP -> flowIds?.firstNotNullOfOrNull(::reason)?.let { "$GROUP because $it" } ?: name
        name == DIRECT -> name.also { note(flowIds, "a lambda or key has changed") }
        name.startsWith(READ) -> READ + kind(name, READ.length)
        name.startsWith(WRITE) -> {
            val kind = kind(name, WRITE.length)
            note(flowIds, if (site == null) "$kind written" else "$kind written in $site")
            WRITE + kind
        }
        else -> name
    }

    /** True if a frame is the app's, not one of the libraries that every write passes through. */
    fun isSite(frame: String): Boolean =
        !frame.startsWith("androidx.") && !frame.startsWith("kotlin") && !frame.startsWith("java.")

    /** Returns `MutableState` of `MutableState(value=12)@1a2b3c`, at most 64 characters. */
    private fun kind(name: String, from: Int): String {
        val end = (from until name.length).firstOrNull { !Character.isJavaIdentifierPart(name[it]) && name[it] != '.' } ?: name.length
        return if (end == from) "state" else name.substring(from, minOf(end, from + 64))
    }

    @Synchronized
    private fun note(flowIds: List<Long>?, reason: String) {
        flowIds?.forEach { id ->
            val place = (id and (SIZE - 1L)).toInt()
            ids[place] = id
            reasons[place] = reason
        }
    }

    @Synchronized
    private fun reason(id: Long): String? {
        val place = (id and (SIZE - 1L)).toInt()
        return if (ids[place] == id) reasons[place] else null
    }
}
