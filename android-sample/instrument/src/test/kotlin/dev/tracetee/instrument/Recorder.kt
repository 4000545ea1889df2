package dev.tracetee.instrument

/** What the tests' classes call instead of the library: keeps the ids, of each thread. */
internal object Recorder {
    private val events = ThreadLocal.withInitial { ArrayList<String>() }

    @JvmStatic
    fun begin(id: String) {
        events.get().add(id)
    }

    @JvmStatic
    fun end() {
        events.get().add("E")
    }

    /** What this thread's calls were, and begins anew. */
    fun take(): List<String> = events.get().toList().also { events.get().clear() }

    val TARGET = Target("dev/tracetee/instrument/Recorder", "begin", "end")
}
