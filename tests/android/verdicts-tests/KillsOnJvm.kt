// Kills processes at any time while their main thread is late, and starts the next one: what had been sampled is in the
// capture of its end, and the next one samples. With the real agent; the JVM's stacks stand in for ART's. Arguments: a
// directory, the number of kills.
import dev.tracetee.MainState
import dev.tracetee.Native
import dev.tracetee.StackAttempts
import dev.tracetee.StackSampler
import java.io.File
import java.util.Random
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.LockSupport

private const val CONFIG = """{"schema": 1, "seq": 1, "crash_loop": {"within_s": 0}, "deaths": {"on": true},
    "budget": {"captures_per_hour": 1000, "captures_per_day": 1000, "bytes_per_day": 1073741824, "cpu_percent": 100},
    "windows": [{"id": "flight", "cool_down_s": 0, "tags": ["app"], "recorder": {"crash_proof": true, "capacity_kb": 1024},
    "stacks": {"percent": 100, "max": 60000},
    "opens": {"triggers": {"any": [{"custom": {"name": "end"}}], "before_s": 60, "after_s": 0}}}]}"""
private const val APP = "com.example.late"

fun main(arguments: Array<String>) {
    val directory = File(arguments[0])
    if (arguments.size == 4) return Victim(directory).live(arguments[1], arguments[2], arguments[3])
    val kills = arguments[1].toInt()
    directory.deleteRecursively()
    directory.mkdirs()
    val random = Random(52)
    var before = Killed("0", 0, 0)
    var refused = 0
    var samples = 0
    var none = 0
    var inFirst = 0
    for (kill in 0..kills) {
        val run = "%016x".format(kill + 1)
        val victim = ProcessBuilder(
            listOf(ProcessHandle.current().info().command().get(), "-Xshare:auto", "-XX:TieredStopAtLevel=1") +
                "-Djava.library.path=${System.getProperty("java.library.path")}" +
                listOf("-cp", System.getProperty("java.class.path"), "KillsOnJvmKt", "$directory", run, before.run, "${before.pid}"),
        ).redirectError(File(directory, "err")).start()
        val said = victim.inputStream.bufferedReader()
        val reported = said.readLine() ?: error(File(directory, "err").readText())
        if (kill > 0) {
            val capture = File(reported)
            val text = ProcessBuilder(System.getenv("TRACETEE"), "convert", "$capture", "-o", "-", "--to", "ftrace").start().inputStream.reader().readText()
            val found = text.lineSequence().count { it.endsWith("|tracetee: stack") }
            // An empty recorder is not a capture.
            check("\"joined_by\":\"summary\"" in text && ("~recovered~" in capture.name || before.samples == 0)) { "$kill: $capture: ${text.take(2000)}" }
            // The last ones may be written and not said, never the other way round.
            check(found >= before.samples) { "$kill: ${before.samples} samples, $found in the report" }
            check(found == 0 || "Victim.live" in text) { "$kill: no stack of the late function" }
            // The rules of redaction leave its times: the second sample stands for more than 100,000 us.
            check("_us\":\"" !in text) { "$kill: ${Regex("_us\":\".*").find(text)!!.value}" }
            samples += found
            if (found == 0) none++
            capture.delete()
        }
        check(said.readLine() == "late") { File(directory, "err").readText() }
        if (kill == kills) {
            // The last one lives until it has sampled.
            check(said.readLine() == "1")
            victim.destroyForcibly().waitFor()
            break
        }
        TimeUnit.MICROSECONDS.sleep(random.nextInt(700_000).toLong())
        // A process that is destroyed loses its output.
        victim.toHandle().destroyForcibly()
        victim.waitFor()
        before = Killed(run, victim.pid(), said.readLines().lastOrNull()?.toInt() ?: 0)
        val note = File(directory, "stacks").takeIf(File::exists)?.readText().orEmpty()
        if (note.startsWith("T")) inFirst++
        if (note.startsWith("U")) {
            refused++
            // It would keep all later ones from asking.
            File(directory, "stacks").delete()
        }
    }
    println("$kills kills in a late message: $samples samples, all in the next start's report; $none without any, $inFirst in the first call, $refused refused starts")
    check(refused * 100 <= kills) { "$refused of $kills" }
}

private class Killed(val run: String, val pid: Long, val samples: Int)

/** A process that reports the end of the previous one, and whose main thread is late for good then. */
private class Victim(private val directory: File) : StackSampler.App, MainState {
    private val attempts = StackAttempts(File(directory, "stacks"), "1")
    private val late = Thread.currentThread()
    private var asked = 0
    private var said = 0

    fun live(run: String, before: String, pid: String) {
        val config = File(directory, "remote.json").apply { writeText(CONFIG) }
        check(Native.load()) { Native.loadError.toString() }
        val settings = """{"directory": "$directory/agent", "config_file": "$config", "app": "$APP", "process": "$APP", "run": "$run", "start_wait_ms": 10000}"""
        Native.install(settings)?.let { error(it) }
        val exits = """{"exits": [{"run": "$before", "alone": true, "version_code": 0, "death": {"reason": "anr", "pid": $pid, "process": "$APP", "at_ms": ${System.currentTimeMillis()}}}]}"""
        val ids = if (before == "0") "" else Native.exits(exits) ?: error("no report")
        val id = Regex("[0-9a-f-]{36}").find(ids)?.value
        println(if (id == null) "" else File(directory, "agent/spool/ready").listFiles()!!.single { id in it.name })
        while (Native.stacks() == 0) Thread.sleep(5)
        println("late")
        val watched = object : Thread() {
            override fun getStackTrace(): Array<StackTraceElement> = late.stackTrace.also { asked++ }
        }
        val sampler = StackSampler(this, watched, this, ProcessHandle.current().pid().toInt(), 30_000_000_000)
        Thread(sampler, "tracetee-stacks").start()
        while (sampler.ended == null) workOfLate()
        error(sampler.ended!!)
    }

    private fun workOfLate() = Thread.onSpinWait()

    override fun settings() = Native.stacks()
    override fun nowNs() = Native.nowNs()
    override fun ask(answer: Runnable) = true
    override fun hasMore() = false
    override fun isInFront() = true
    override fun mayCall() = attempts.mayCall()
    override fun noteStuck() = attempts.noteStuck()
    override fun noteBack() = attempts.noteBack()

    /** The sampler sleeps after each sample that it has written. */
    override fun sleep(ns: Long) {
        if (asked != said) {
            said = asked
            println(said)
        }
        LockSupport.parkNanos(ns)
    }

    // This machine may be busy, and the sampler asks no thread that gets no processor.
    override val state = 'S'
    override var cpuNs = 0L
    override fun readState() = Unit
    override fun readTime() {
        cpuNs += 1_000_000
    }
}
