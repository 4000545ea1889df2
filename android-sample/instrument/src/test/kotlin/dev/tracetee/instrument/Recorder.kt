package dev.tracetee.instrument

/** Records the ids of each thread. The tests' classes call it instead of the library. */
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

    /** Returns this thread's calls and forgets them. */
    fun take(): List<String> = events.get().toList().also { events.get().clear() }

    val TARGET = Target("dev/tracetee/instrument/Recorder", "begin", "end")
}
