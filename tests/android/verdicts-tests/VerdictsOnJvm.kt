// Feeds AOSP's FrameMetrics, and JankData of API 37.2, to the library's own listeners, and looks at what they take. Its
// first argument is the API level of the classes: 36, or 37.2, with the jar of 36; with `costs` it measures, with `ledger`
// it counts in the agent.
import android.view.FrameMetrics
import android.view.SurfaceControl
import dev.tracetee.BootTime
import dev.tracetee.CaptureOptions
import dev.tracetee.FrameLedger
import dev.tracetee.FrameLog
import dev.tracetee.FrameRecord
import dev.tracetee.FrameSink
import dev.tracetee.JankListener
import dev.tracetee.Native
import dev.tracetee.Tracetee
import java.io.File
import java.lang.reflect.Modifier
import java.net.URLClassLoader
import java.util.Random
import java.util.concurrent.Executor

fun main(arguments: Array<String>) = when (val api = arguments[0]) {
    "36" -> {
        levels()
        counts()
        ledger()
        suspends()
        randomSuspends()
        println("verdicts, $api: FrameMetrics of 5 levels, counts, after a suspend: as expected")
    }

    "costs" -> costs()

    "ledger" -> ledgerOfAgent(File(arguments[1]))

    else -> {
        standIns(arguments[1])
        presentTimes()
        println("verdicts, $api: present times of windows and other surfaces: as expected")
    }
}

/** A frame as hwui fills it: due 16 ms after its vsync, complete after 21. */
private fun metrics(id: Long = 4711, vsyncMs: Long = 100) = FrameMetrics().apply {
    fun set(index: String, value: Long) {
        val place = Class.forName("android.view.FrameMetrics\$Index").getField(index).getInt(null)
        mTimingData[place] = value
    }
    set("FRAME_TIMELINE_VSYNC_ID", id)
    set("INTENDED_VSYNC", vsyncMs * MS)
    set("VSYNC", (vsyncMs + 2) * MS)
    set("FRAME_DEADLINE", (vsyncMs + 16) * MS)
    set("FRAME_COMPLETED", (vsyncMs + 21) * MS)
    set("COMMAND_SUBMISSION_COMPLETED", (vsyncMs + 12) * MS)
    set("GPU_COMPLETED", (vsyncMs + 20) * MS)
}

/** Each API level has its own fields; the platform's object is used again at once. */
private fun levels() {
    val expected = mapOf(
        24 to null,
        26 to "vsync=- intended_ns=100000000 mono_ns=100000000 total_ns=21000000",
        30 to "vsync=- intended_ns=100000000 mono_ns=100000000 total_ns=21000000",
        31 to "vsync=- intended_ns=100000000 mono_ns=100000000 allowed_ns=16000000 total_ns=21000000 gpu_ns=8000000",
        36 to "vsync=4711 intended_ns=100000000 mono_ns=100000000 allowed_ns=16000000 total_ns=21000000 gpu_ns=8000000",
    )
    for ((api, text) in expected) {
        val texts = Texts(api)
        val metrics = metrics()
        texts.metrics(metrics, 0)
        metrics.mTimingData.fill(0)
        texts.metrics(metrics(-1), 3)
        // Before API 26 nothing says which frame it is.
        val again = text?.let { it.replace("vsync=4711", "vsync=-") + " unreported=3" }
        expect(listOfNotNull(text, again).map { "frame_metrics $it" }, texts.all)
    }
    val first = metrics().apply { mTimingData[0] = 1 }
    val texts = Texts(36)
    texts.metrics(first, 0)
    check(texts.all.single().endsWith(" first=1")) { texts.all }
    // An exception stays inside, and the next frame is taken.
    texts.throws = true
    texts.metrics(metrics(), 0)
    texts.throws = false
    texts.metrics(metrics(), 0)
    expect(2, texts.all.size)
}

/** [more]: the present times that API 37.2 has. */
private fun jank(vsync: Long, type: Int, scheduledNs: Long, actualNs: Long, vararg more: Long): SurfaceControl.JankData =
    SurfaceControl.JankData::class.java.declaredConstructors.single()
        .newInstance(vsync, type, 16 * MS, scheduledNs, actualNs, *more.toTypedArray()) as SurfaceControl.JankData

private val registrationClass by lazy { Class.forName("android.view.SurfaceControl\$OnJankDataListenerRegistration") }

private fun registration() = registrationClass.getConstructor().newInstance() as SurfaceControl.OnJankDataListenerRegistration

private fun removed(registration: Any) = registrationClass.getField("removed").getInt(registration)

/** The stand-ins for classes of 37.2 have the methods of the real ones of 36, and those that 37.2 adds. */
private fun standIns(android: String) {
    val real = URLClassLoader(arrayOf(File(android).toURI().toURL()), ClassLoader.getPlatformClassLoader())
    fun methods(name: String, loader: ClassLoader) = Class.forName(name, false, loader).declaredMethods
        .filter { Modifier.isPublic(it.modifiers) && it.name != "toString" }.map { it.toGenericString() }.toSet()
    fun added(inner: String): List<String> {
        val name = "android.view.SurfaceControl\$$inner"
        val (of36, ours) = methods(name, real) to methods(name, Surface::class.java.classLoader)
        // Apps may not use it.
        expect(emptySet<String>(), of36.filterNot { it.endsWith(".release()") }.toSet() - ours)
        return (ours - of36).map { it.substringBeforeLast('.').substringBefore(' ') + " " + it.substringAfterLast('.') }.sorted()
    }
    expect(emptyList<String>(), added("OnJankDataListenerRegistration"))
    expect(listOf("public getDesiredPresentTimeNanos()", "public getPresentTimeNanos()"), added("JankData"))
}

/** A surface of API 37.2, which any class may be. */
class Surface(private val registration: SurfaceControl.OnJankDataListenerRegistration) {
    var listener: SurfaceControl.OnJankDataListener? = null

    fun registerOnJankDataListener(executor: Executor, listener: SurfaceControl.OnJankDataListener) = registration.also {
        executor.execute { this.listener = listener }
    }
}

/** When the display was to show a frame, and did: at 132 ms, never (0), nobody knows (-1). */
private fun presentTimes() {
    for (isSurface in listOf(false, true)) {
        val registration = registration()
        val surface = Surface(registration)
        val texts = Texts(37, BootTime({ 0 }, { 5 * MS }))
        val listener = checkNotNull(JankListener.register(Surface::class.java, surface, Runnable::run) { texts.jank(it, isSurface) })
        val batch = listOf(
            jank(7, 1, 10 * MS, 8 * MS, 132 * MS, 116 * MS),
            jank(8, 1, 10 * MS, 8 * MS, 0, 116 * MS),
            jank(9, 0, 10 * MS, 8 * MS, -1, -1),
            jank(-1, 0, 10 * MS, 8 * MS, -1, -1),
        )
        surface.listener!!.onJankDataAvailable(batch)
        val source = if (isSurface) "surface_jank_data" else "jank_data"
        val expected = listOf(
            "vsync=7 present_ns=137000000 expected_ns=121000000 mono_ns=132000000 jank=1 allowed_ns=10000000 total_ns=8000000",
            "vsync=8 present_ns=0 expected_ns=121000000 jank=1 allowed_ns=10000000 total_ns=8000000",
            "vsync=9 jank=0 allowed_ns=10000000 total_ns=8000000",
            "vsync=- jank=0 allowed_ns=10000000 total_ns=8000000",
        )
        expect(expected.map { "$source $it" }, texts.all)
        listener.release()
        expect(1, removed(registration))
    }
    // A surface's vsync is not that of a window's frame.
    val log = FrameLog()
    val frame = FrameRecord()
    log.add(frame.take(metrics(7), 0, 36), 16 * MS)
    log.add(frame.take(JankListener.Data(7, 0, 16 * MS, 8 * MS, -1, -1), true), 16 * MS)
    expect(1, log.count(0, Long.MAX_VALUE).late)
    log.add(frame.take(JankListener.Data(7, 0, 16 * MS, 8 * MS, -1, -1), false), 16 * MS)
    expect(0, log.count(0, Long.MAX_VALUE).late)
}

/** Frames of 16 ms each, the late ones longest in one of their parts. */
private fun counts() {
    val log = FrameLog()
    val frame = FrameRecord()
    fun add(vsync: Long, ms: Long, stage: Int = 4) {
        frame.take(metrics(vsync, vsync * 20), 0, 36)
        frame.totalNs = ms * MS
        frame.gpuNs = if (stage == 8) ms * MS else MS
        for (place in 0 until 8) frame.stages[place] = if (place == stage) ms * MS / 2 else 0
        log.add(frame, 16 * MS)
    }
    fun count(from: Long, to: Long) = log.count(from * 20 * MS, to * 20 * MS).run {
        "$frames $late $frozen ${overrunNs / MS} $topCause $isWhole"
    }
    expect("0 0 0 0 null true", count(0, 100))
    for (vsync in 0L until 10) add(vsync, 16)
    expect("10 0 0 0 null true", count(0, 10))
    // 4 ms of layout; then 3 of layout, 9 of input, 3 of the graphics processor.
    add(10, 20, 3)
    expect("1 1 0 4 LAYOUT true", count(10, 11))
    add(11, 19, 3)
    add(12, 25, 1)
    add(13, 19, 8)
    expect("4 4 0 19 INPUT true", count(10, 14))
    expect("1 1 0 3 GPU true", count(13, 100))
    // From the first vsync on, up to the last, without it.
    expect("2 2 0 12 INPUT true", log.count(220 * MS, 260 * MS).run { "$frames $late $frozen ${overrunNs / MS} $topCause $isWhole" })
    expect("1 1 0 9 INPUT true", log.count(220 * MS + 1, 260 * MS).run { "$frames $late $frozen ${overrunNs / MS} $topCause $isWhole" })
    add(14, 701, 0)
    expect("1 1 1 685 DELAY true", count(14, 15))
    // The compositor knows better: 12 was shown in time, 9 not, 10 was 5 ms late.
    fun jank(vsync: Long, bits: Int, allowedMs: Long, totalMs: Long) =
        log.add(frame.take(JankListener.Data(vsync, bits, allowedMs * MS, totalMs * MS, -1, -1), false), 0)
    jank(12, 0, 16, 25)
    jank(9, 1, 16, 16)
    jank(10, 2, 16, 21)
    jank(4711, 2, 16, 21)
    jank(11, 3, 16, 19)
    expect("1 1 0 0 SYSTEM true", count(9, 10))
    // The app and the compositor made 11 late.
    expect("1 1 0 3 LAYOUT true", count(11, 12))
    expect("4 3 0 11 LAYOUT true", count(10, 14))
    // Only the last frames are known.
    for (vsync in 15L until 5_000) add(vsync, 16)
    expect("4096 0 0 0 null false", count(0, 5_000))
    expect("4096 0 0 0 null true", count(5_000 - 4_096, 5_000))
    expect("4096 0 0 0 null false", count(5_000 - 4_097, 5_000))
}

/** The frames that a ledger gets, each as its vsync in ms and its word, on a clock and a thread that the test has. */
private class Counted {
    var nowNs = 0L
    val calls = mutableListOf<List<Pair<Long, String>>>()
    private val tasks = mutableListOf<Pair<Long, Runnable>>()

    // A frame is reported a second after its vsync.
    val ledger = FrameLedger({ nowNs + 1000 * MS }, { words, count, _ ->
        calls += List(count) { words[2 * it] / MS to words[2 * it + 1].toString(16) }
    }) { task, ms -> tasks += nowNs + ms * MS to task }
    private val frame = FrameRecord()

    fun report(vsync: Long, totalMs: Long, gpuMs: Long = 1) {
        frame.take(metrics(vsync, nowNs / MS), 0, 36)
        frame.totalNs = totalMs * MS
        frame.gpuNs = gpuMs * MS
        frame.allowedNs = 16 * MS
        ledger.add(frame, 16_666_667)
    }

    fun judge(vsync: Long, bits: Int, totalMs: Long, isSurface: Boolean = false) {
        ledger.add(frame.take(JankListener.Data(vsync, bits, 16 * MS, totalMs * MS, -1, -1), isSurface), 16_666_667)
    }

    fun pass(ms: Long) {
        val end = nowNs + ms * MS
        while (true) {
            val next = tasks.filter { it.first <= end }.minByOrNull { it.first } ?: break
            tasks -= next
            nowNs = next.first
            next.second.run()
        }
        nowNs = end
    }
}

/** Each frame is handed to the agent once, with its verdict if one comes within a second. */
private fun ledger() {
    val counted = Counted()
    // The agent is told that frames come from here.
    expect(listOf(emptyList<Any>()), counted.calls)
    counted.report(1, 20)
    counted.pass(500)
    expect(1, counted.calls.size)
    Native.ledger = true
    // Without a compositor that judges, a quarter of a second: late by 4 ms, in time, frozen and late.
    counted.report(1, 20)
    counted.report(2, 10)
    counted.report(3, 701)
    // These cannot be.
    counted.report(3, 1001)
    counted.report(3, 20, 21)
    counted.pass(249)
    expect(1, counted.calls.size)
    counted.pass(1)
    val (late, known, frozen, judged) = listOf(1L shl 32, 1L shl 34, 1L shl 33, 1L shl 35)
    fun word(flags: Long) = flags.toString(16)
    expect(listOf(500L to word(late + known + 4000), 500L to "0", 500L to word(late + known + frozen + 685_000)), counted.calls.last())
    // Judged: the app's fault; not janky although the metrics say so; the compositor's fault, by nobody knows how much.
    counted.calls.clear()
    for (vsync in 4L..7L) counted.report(vsync, if (vsync == 5L) 20 else 10)
    counted.judge(4, 2, 18)
    counted.judge(5, 0, 10)
    counted.judge(6, 1, 10)
    // Of a frame that nobody has reported.
    counted.judge(99, 2, 18)
    counted.pass(250)
    val at = 750L
    expect(listOf(at to word(late + known + 2000 + judged + (2L shl 36)), at to word(judged), at to word(late + judged + (1L shl 36))), counted.calls.single())
    // The fourth one waits for a second, and counts as it is. A verdict after that is of no frame.
    counted.pass(740)
    expect(1, counted.calls.size)
    counted.pass(260)
    expect(listOf(at to "0"), counted.calls.last())
    counted.judge(7, 2, 18)
    // A surface's frame has its verdict with it.
    counted.judge(8, 2, 18, isSurface = true)
    counted.pass(250)
    expect(listOf(counted.nowNs / MS + 750 to word(late + known + 2000 + judged + (2L shl 36) + (1L shl 39))), counted.calls.last())
    // More frames than wait at most: all of them arrive.
    counted.calls.clear()
    repeat(1000) { counted.report(1000L + it, 10) }
    counted.pass(2000)
    expect(1000, counted.calls.sumOf { it.size })
    check(counted.calls.all { it.size <= 256 })
    Native.ledger = false
}

/** Counts in the real agent, whose file [directory] has then. */
private fun ledgerOfAgent(directory: File) {
    directory.deleteRecursively()
    check(Native.load()) { Native.loadError.toString() }
    expect(null, Native.install("""{"directory": "$directory", "version_code": 7, "segment": {"plan": "free"}}"""))
    expect(null, Native.offerConfig("""{"schema": 1, "seq": 1, "ledger": {"on": true}}""".toByteArray(), null))
    val end = System.nanoTime() + 20_000 * MS
    while (!Native.ledger && System.nanoTime() < end) Thread.sleep(10)
    check(Native.ledger) { "the agent does not count" }
    Native.setScreen("Checkout")
    Native.setVisible(true)
    val counted = Counted()
    val frames = FrameLedger { task, _ -> task.run() }
    val frame = FrameRecord()
    for (totalMs in listOf(10L, 20L, 701L)) {
        frame.take(metrics(totalMs), 0, 36)
        frame.totalNs = totalMs * MS
        frame.intendedNs = System.nanoTime() - frame.totalNs
        frames.add(frame, 16_666_667)
    }
    counted.pass(0)
    Native.countStart(0, 5000, -1)
    expect("""[""]""", Native.exits("""{"exits": [{"death": {"reason": "anr", "visible": true, "pid": 4}}]}"""))
    Native.setVisible(false)
    Thread.sleep(2500)
    val file = File(directory, "spool/ledger").listFiles()!!.single()
    val text = String(file.readBytes(), Charsets.ISO_8859_1)
    check("Checkout" in text && "anr" in text && "premium" !in text && "free" in text) { text }
    expect(null, Native.setConsent(false))
    Thread.sleep(1500)
    expect(emptyList<String>(), File(directory, "spool/ledger").list()!!.toList())
    check(!Native.ledger || File(directory, "spool/off").exists())
    expect(null, Native.uninstall())
    println("ledger: counted in the agent, and deleted without consent")
}

/** Prints the processor time of what the library does for a frame: ns, median of 31 runs, recording and not. */
private fun costs() {
    val threads = java.lang.management.ManagementFactory.getThreadMXBean()
    val surface = Surface(registration())
    val sink = FrameSink(BootTime(), 36)
    val log = FrameLog()
    val kept = FrameRecord()
    JankListener.register(Surface::class.java, surface, Runnable::run) { sink.jank(it, false) }
    val (metrics, begun, data) = Triple(metrics(), begun(), jank(7, 1, 10 * MS, 8 * MS, -1, -1))
    val work = mapOf(
        "nothing" to {},
        "FrameMetrics" to {
            sink.metrics(metrics, 0)
            log.add(kept.take(metrics, 0, 36), 16 * MS)
        },
        "JankData" to { surface.listener!!.onJankDataAvailable(listOf(data)) },
        "deadline" to {
            sink.deadline(begun)
            Unit
        },
    )
    val ring = CaptureOptions.Builder().setMode(CaptureOptions.Mode.RING).setCategories(CaptureOptions.Category.APP).build()
    fun ns(what: () -> Unit) = List(31) {
        val before = threads.currentThreadCpuTime
        repeat(5_000) { what() }
        (threads.currentThreadCpuTime - before) / 5_000
    }.sorted()[15]
    for (recording in listOf(false, true)) {
        if (recording) Tracetee.startCapture(ring).run { check(isDone) { this } } else check(Native.load()) { Native.loadError!! }
        expect(recording, Tracetee.isRecording)
        println("verdicts, recording $recording: " + work.entries.joinToString { "${it.key} ${ns(it.value)} ns" })
    }
    Tracetee.stopCapture()
}

/** Clocks of a device: boot time continues while it sleeps. */
private class Device {
    var monotonic = 1_000 * MS
    var slept = 5_000 * MS
    val clock = BootTime({ monotonic }, { monotonic + slept })

    fun text(intendedMs: Long): String {
        val texts = Texts(36, clock)
        texts.metrics(metrics(vsyncMs = intendedMs), 0)
        return texts.all.single().substringAfter("4711 ").substringBefore(" allowed")
    }
}

private fun suspends() {
    val device = Device()
    expect("intended_ns=5990000000 mono_ns=990000000", device.text(990))
    device.monotonic = 1_100 * MS
    // The device sleeps for 60 s, between two reports.
    device.slept += 60_000 * MS
    // After the sleep, or before it, nobody knows.
    expect("intended_ns=66050000000 mono_ns=1050000000 suspended_ns=60000000000", device.text(1_050))
    // Before the comparison that came before the sleep; after the one that came after it.
    expect("intended_ns=5995000000 mono_ns=995000000", device.text(995))
    device.monotonic = 1_200 * MS
    expect("intended_ns=66150000000 mono_ns=1150000000", device.text(1_150))
    // A thread that is preempted between the clocks makes no sleep.
    var stalls = 0
    val stalling = BootTime({ device.monotonic += stalls * MS; device.monotonic }, { device.monotonic + device.slept })
    stalling.compare()
    stalls = 3
    repeat(5) { stalling.compare() }
    expect(device.monotonic + device.slept, stalling.boot(device.monotonic))
    expect(0L, stalling.suspendedNs(device.monotonic))
    // One that is preempted each time compares, too.
    val slow = BootTime({ device.monotonic += 3 * MS; device.monotonic }, { device.monotonic + device.slept }).apply { compare() }
    check(device.slept - slow.boot(0) in 0..3 * MS) { slow.boot(0) }
}

/** Whatever the times of sleeps and reports are, the vsync is within what the record says; without a sleep it is exact. */
private fun randomSuspends() {
    for (seed in 0L until 2_000) {
        val random = Random(seed)
        val device = Device()
        device.clock.compare()
        // Boot time of each monotonic time, as it was then.
        val history = ArrayList<Pair<Long, Long>>()
        repeat(20) {
            device.monotonic += random.nextInt(50) * MS + 1
            val vsync = device.monotonic
            history.add(vsync to vsync + device.slept)
            device.monotonic += random.nextInt(30) * MS
            if (random.nextInt(8) == 0) device.slept += (1 + random.nextInt(100_000)) * MS
            device.monotonic += random.nextInt(3) * MS
            // Reports come in their order, one or two of them late.
            if (random.nextInt(3) > 0) {
                device.clock.compare()
                for ((monotonic, boot) in history) {
                    val latest = device.clock.boot(monotonic)
                    val earliest = latest - device.clock.suspendedNs(monotonic)
                    check(boot in earliest..latest) { "seed $seed: $boot, not in $earliest, $latest" }
                }
                history.clear()
            }
        }
    }
}
