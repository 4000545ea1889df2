// Runs TraceteeTracer with androidx.tracing 2's own jars, its wire driver as the delegate, and the agent on a JVM:
// tests/android/androidx compares the two traces by Perfetto's trace_processor. Commands: trace, costs, victim, recover,
// registered, no-compose.
@file:JvmName("TracerOnJvm")
@file:OptIn(DelicateTracingApi::class, ExperimentalContextPropagation::class)

import android.content.ContextWrapper
import androidx.tracing.AbstractTraceDriver
import androidx.tracing.Counter
import androidx.tracing.DelicateTracingApi
import androidx.tracing.ExperimentalContextPropagation
import androidx.tracing.PropagationToken
import androidx.tracing.Tracer
import androidx.tracing.wire.TraceDriver
import androidx.tracing.wire.TraceSink
import dev.tracetee.CaptureOptions
import dev.tracetee.ComposeHook
import dev.tracetee.Outcome
import dev.tracetee.Tracetee
import dev.tracetee.androidx.TraceteeTracer
import dev.tracetee.androidx.TraceteeTracing
import java.io.File
import java.io.RandomAccessFile
import java.nio.channels.FileChannel
import java.util.concurrent.Executors
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.yield

const val THREADS = 8

/** Sections of one round of a thread: see [round]. */
const val ROUND = 5

/** Sections of a coroutine: see [coroutine]. */
const val COROUTINE = 2

fun main(arguments: Array<String>) {
    System.load(arguments[1])
    val out = File(arguments[2])
    when (arguments[0]) {
        "trace" -> trace(out, arguments[3].toInt())
        "costs" -> costs(out, arguments[3].toInt())
        "victim" -> victim(out)
        "recover" -> recover(out, arguments[3])
        "registered" -> registered()
        "no-compose" -> println(ComposeHook.attach().error)
    }
}

fun expect(outcome: Outcome) = check(outcome.isDone) { "$outcome" }

fun wire(directory: File) = TraceDriver(TraceSink(directory.apply { mkdirs() }), isCategoryEnabled = { true })

fun memory() = CaptureOptions.Builder().setCategories(CaptureOptions.Category.APP).setMode(CaptureOptions.Mode.STARTUP)
    .setPassOn(CaptureOptions.PassOn.NEVER).setDurationMs(null).setBlockKb(256).setCapacityKb(2_000_000)
    .setPrecision(CaptureOptions.Precision.NS)

/** Writes [sections] sections from [THREADS] threads into both traces. */
private fun trace(out: File, sections: Int) {
    val driver = wire(File(out, "wire"))
    val tracer = TraceteeTracer(driver.tracer)
    expect(Tracetee.startCapture(memory().build()))
    check(tracer.isCategoryEnabled("any"))
    // Three quarters of the sections by threads, the rest by coroutines on as many others.
    val rounds = sections * 3 / 4 / THREADS / ROUND
    val tokens = List(THREADS) { LinkedBlockingQueue<PropagationToken>() }
    val threads = List(THREADS) { n ->
        Thread({
            for (i in 0 until rounds) round(tracer, n, i, tokens)
            thrown(tracer)
            // Its flow ends where another thread began it, whoever is first.
            repeat(rounds) { i -> tracer.trace("flow", "ends $i", tokens[n].take()) {} }
        }, "worker-$n")
    }
    threads.forEach { it.start() }
    threads.forEach { it.join() }
    val names = AtomicInteger()
    val executor = Executors.newFixedThreadPool(THREADS) { Thread(it, "pool-${names.getAndIncrement()}") }
    executor.asCoroutineDispatcher().let { pool ->
        runBlocking {
            repeat(THREADS * 4) { n ->
                launch(pool) { repeat(sections / 4 / COROUTINE / (THREADS * 4)) { i -> coroutine(tracer, n, i) } }
            }
        }
    }
    // A thread may end the slice of a coroutine that has already gone on elsewhere.
    executor.shutdown()
    check(executor.awaitTermination(1, TimeUnit.MINUTES))
    expect(Tracetee.stopCapture())
    expect(Tracetee.dump(File(out, "ours.ftrace")))
    driver.close()
    println("traced")
}

/** Four sections, and the begin of a flow that the next thread ends. */
private fun round(tracer: Tracer, n: Int, i: Int, tokens: List<LinkedBlockingQueue<PropagationToken>>) {
    tracer.trace("work", "outer $i") {
        tracer.trace(
            "work.inner",
            "inner $i",
            metadataBlock = {
                addMetadataEntry("number", i.toLong())
                addMetadataEntry("text", "näme \"$n\"")
                addMetadataEntry("share", i / 8.0)
                addMetadataEntry("isEven", i % 2 == 0)
            },
        ) {}
        tracer.trace("work", "correlated", metadataBlock = { addCorrelationId(1_000L * i + n) }) {}
        val token = tracer.tokenForManualPropagation(listOf(1_000_000_000L * (n + 1) + i))
        tracer.trace("flow", "begins $i", token) {}
        tokens[(n + 1) % THREADS] += token
    }
    if (i % 64 == 0) tracer.instant("work", "instant $i", metadataBlock = { addMetadataEntry("n", n.toLong()) })
}

/** Two sections around a suspension, which continue on any thread. */
private suspend fun coroutine(tracer: Tracer, n: Int, i: Int) {
    tracer.traceCoroutine("coroutine", "coroutine $n.$i") {
        if (i % 4 == 0) yield()
        tracer.traceCoroutine("coroutine", "nested $n.$i", metadataBlock = { addMetadataEntry("i", i.toLong()) }) {
            if (i % 2 == 0) yield()
        }
    }
}

/** An exception goes on to the caller and is an instant with its stack. */
private fun thrown(tracer: Tracer) {
    val thrown = runCatching { tracer.trace("work", "throws") { error("no") } }.exceptionOrNull()
    check(thrown is IllegalStateException && thrown.message == "no")
}

/** Prints the time of a section by tracer, ns, and what a check costs while nothing records. */
private fun costs(out: File, sections: Int) {
    val wire = wire(File(out, "wire-costs"))
    val ours = TraceteeTracer()
    val stub = Tracer.getStubTracer()
    fun section(tracer: Tracer) = measured(sections) { tracer.trace("work", "a section", metadataBlock = { addMetadataEntry("n", 1L) }) {} }
    fun plain(tracer: Tracer) = measured(sections) { tracer.trace("work", "a section") {} }
    fun check(tracer: Tracer) = measured(sections * 20) { if (tracer.isCategoryEnabled("work")) error("enabled") }
    repeat(2) {
        check(stub)
        check(ours)
    }
    repeat(3) { println("disabled, ns a check: stub ${"%.2f".format(check(stub))}, ours ${"%.2f".format(check(ours))}") }
    repeat(4) { round ->
        expect(Tracetee.startCapture(memory().build()))
        val values = listOf(plain(ours), section(ours), plain(wire.tracer), section(wire.tracer)).map { "%.0f".format(it) }
        expect(Tracetee.stopCapture())
        wire.flush()
        if (round > 0) println("ns a section: ours ${values[0]}, with an argument ${values[1]}; wire ${values[2]}, ${values[3]}")
    }
    wire.close()
}

private inline fun measured(times: Int, call: () -> Unit): Double {
    val begin = System.nanoTime()
    repeat(times) { call() }
    return (System.nanoTime() - begin).toDouble() / times
}

/** Traces until it is killed; notes each section that has begun in a file that survives, as the recorder's does. */
private fun victim(out: File) {
    val recorder = File(out, "recorder").apply { mkdirs() }
    expect(Tracetee.startCapture(memory().setCapacityKb(64_000).setMode(CaptureOptions.Mode.RING).setDirectory(recorder).build()))
    val begun = RandomAccessFile(File(out, "begun"), "rw").channel.map(FileChannel.MapMode.READ_WRITE, 0, 8L * THREADS)
    val tracer = TraceteeTracer()
    repeat(THREADS) { n ->
        Thread({
            var i = 0L
            while (true) {
                i++
                tracer.trace("victim", "section $i", metadataBlock = { addMetadataEntry("i", i) }) { begun.putLong(8 * n, i) }
            }
        }, "victim-$n").start()
    }
    Thread.sleep(60_000)
    Runtime.getRuntime().halt(1)
}

/** Recovers what a victim recorded: each thread's last section that had begun is there, and none before it is missing. */
private fun recover(out: File, program: String) {
    val to = File(out, "recovered").apply { mkdirs() }
    expect(Tracetee.startCapture(memory().setCapacityKb(1_024).setDirectory(File(out, "recorder")).setRecoverTo(to).build()))
    val end = System.nanoTime() + 60_000_000_000
    fun recovered() = to.listFiles().orEmpty().firstOrNull { it.name.endsWith(".ftrace.zst") }
    while (recovered() == null) {
        check(System.nanoTime() < end) { "nothing is recovered" }
        Thread.sleep(50)
    }
    expect(Tracetee.stopCapture())
    val text = File(out, "recovered.ftrace")
    val converted = ProcessBuilder(program, "convert", recovered()!!.path, "-o", text.path).redirectErrorStream(true).start()
    val said = converted.inputStream.reader().readText()
    check(converted.waitFor() == 0) { said }
    val lines = text.readLines()
    val begun = RandomAccessFile(File(out, "begun"), "r").channel.map(FileChannel.MapMode.READ_ONLY, 0, 8L * THREADS)
    val section = Regex("""victim-(\d)-\d+ .*: B\|\d+\|section (\d+)""")
    val found = lines.mapNotNull { section.find(it) }.groupBy({ it.groupValues[1].toInt() }, { it.groupValues[2].toLong() })
    check(found.size == THREADS) { "sections of ${found.keys}" }
    for ((n, numbers) in found) {
        val last = begun.getLong(8 * n)
        check(numbers.last() in last..last + 1) { "thread $n: section $last had begun, ${numbers.last()} is the last one" }
        check(numbers == (numbers.first()..numbers.last()).toList()) { "thread $n: a section is missing" }
    }
    println("recovered ${found.values.sumOf { it.size }} sections")
}

/** Where the app has a tracer of its own, that stays and can be the delegate; a second call changes nothing. */
private fun registered() {
    repeat(2) { expect(TraceteeTracing.install()) }
    check(Tracer.global is TraceteeTracer)
    val first = Tracer.global
    check(runCatching { Tracer.setGlobalTracer(TraceteeTracer()) }.exceptionOrNull() is IllegalStateException)
    check(Tracer.global === first)
    Tracer.resetGlobalTracer()
    val own = TraceDriver.getStubTraceDriver().tracer.let { object : TracerOfTheApp(it) {} }
    Tracer.setGlobalTracer(own)
    val why = TraceteeTracing.install().error
    check(Tracer.global === own && why != null && "TracerOnJvm" in why && "TraceteeTracer(delegate)" in why) { "$why" }
    // Nothing is recorded and its check says no: the delegate gets no section, and the block runs.
    val both = TraceteeTracer(own)
    check(!both.isCategoryEnabled("x") && both.trace("x", "y") { 3 } == 3 && own.begun == 0)
    own.isOn = true
    check(both.isCategoryEnabled("x") && both.trace("x", "y") { 4 } == 4 && own.begun == 1)
    both.counter("x", "y").run {
        setValue(1.5)
        setValue(2)
        own.isOn = false
        setValue(3)
    }
    check(own.values == listOf(1.5, 2L)) { own.values }
    own.isOn = true
    drivers(own)
    println("registered")
}

/** The drivers that an `Application` returns: without a delegate while nothing profiles the app, and with one of the app's. */
private fun drivers(own: TracerOfTheApp) {
    // It has no package manager, so no component that a profiler could have switched on.
    val app = ContextWrapper(null)
    val alone = TraceteeTracing.driver(app)
    check(alone.tracer is TraceteeTracer && !alone.tracer.isCategoryEnabled("x"))
    alone.flush()
    alone.close()
    val calls = ArrayList<String>()
    val theirs = object : AbstractTraceDriver(TraceDriver.getStubTraceDriver().sink) {
        override val tracer = own
        override fun flush() = calls.plusAssign("flush")
        override fun close() = calls.plusAssign("close")
    }
    val both = TraceteeTracing.driver(app, theirs)
    val before = own.begun
    check(both.tracer is TraceteeTracer && both.sink === theirs.sink && both.sink !== alone.sink)
    check(both.tracer.trace("x", "y") { 5 } == 5 && own.begun == before + 1) { "the delegate's tracer gets no section" }
    both.flush()
    both.close()
    check(calls == listOf("flush", "close")) { calls }
    // A capture records through the driver's tracer.
    expect(Tracetee.startCapture(memory().setCapacityKb(1_024).build()))
    check(alone.tracer.isCategoryEnabled("x"))
    alone.tracer.trace("x", "by the driver") {}
    expect(Tracetee.stopCapture())
    val file = File.createTempFile("driver", ".ftrace")
    expect(Tracetee.dump(file))
    check("|by the driver" in file.readText())
    file.delete()
}

/** A tracer that an app might have: counts what begins. */
abstract class TracerOfTheApp(private val stub: Tracer) : Tracer() {
    var isOn = false
    var begun = 0
    val values = ArrayList<Number>()

    override fun tokenForManualPropagation(flowIds: List<Long>) = stub.tokenForManualPropagation(flowIds)
    override fun tokenFromThreadContext() = stub.tokenFromThreadContext()
    override suspend fun tokenFromCoroutineContext() = stub.tokenFromCoroutineContext()
    override fun isCategoryEnabled(category: String) = isOn
    override fun counter(category: String, name: String) = object : Counter {
        override fun name() = name
        override fun setValue(value: Long) = values.plusAssign(value)
        override fun setValue(value: Double) = values.plusAssign(value)
    }
    override fun writeInstant(category: String, name: String, token: PropagationToken?) = stub.writeInstant(category, name, token)
    override fun beginSectionWithMetadata(category: String, name: String, token: PropagationToken?, isRoot: Boolean) =
        stub.beginSectionWithMetadata(category, name, token, isRoot).also { begun++ }
    override suspend fun beginCoroutineSectionWithMetadata(category: String, name: String, token: PropagationToken?, isRoot: Boolean) =
        stub.beginCoroutineSectionWithMetadata(category, name, token, isRoot).also { begun++ }
}
