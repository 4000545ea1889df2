package com.example.planted

import java.lang.management.ManagementFactory
import java.lang.management.ThreadMXBean

/** Work of an app on the main thread: it computes, waits, or calls the platform. */
object Work {
    /** By class, with the time that it takes, ns: of a processor, or asleep. */
    val all: List<Pair<String, (Long) -> Unit>> = listOf(
        "com.example.planted.Feed" to { ns -> Feed().bind(ns) },
        "com.example.planted.Cache" to { ns -> Cache().read(ns) },
        "com.example.planted.Text" to { ns -> Text().fit(ns) },
        "com.example.planted.Ads" to { ns -> Ads().load(ns) },
    )

    /** Processor time of threads: one that gets no processor stays where it is. */
    @JvmField
    internal val clock: ThreadMXBean = ManagementFactory.getThreadMXBean()
}

private class Feed {
    fun bind(ns: Long): Int {
        val end = Work.clock.currentThreadCpuTime + ns
        var sum = 0
        while (Work.clock.currentThreadCpuTime < end) sum += 1
        return sum
    }
}

private class Cache {
    fun read(ns: Long) = Thread.sleep(ns / 1_000_000, (ns % 1_000_000).toInt())
}

private class Text {
    fun fit(ns: Long): Int {
        val end = Work.clock.currentThreadCpuTime + ns
        var text = ""
        while (Work.clock.currentThreadCpuTime < end) text = text.plus("x").takeLast(100).reversed()
        return text.length
    }
}

private class Ads {
    fun load(ns: Long): Int {
        val end = Work.clock.currentThreadCpuTime + ns
        val numbers = HashMap<Int, String>()
        while (Work.clock.currentThreadCpuTime < end) for (number in 0..50) numbers[number] = numbers[number].orEmpty().take(3) + "y"
        return numbers.size
    }
}
