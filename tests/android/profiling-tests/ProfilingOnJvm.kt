// Runs AOSP's real ProfilingManager of one API level on a JVM with the agent, its spool and a stand-in for the system's
// service: tests/android/run profiling. `one` is a process that dies between request and result, `other` the next one of the
// app.
@file:JvmName("ProfilingOnJvm")

import android.os.Build
import dev.tracetee.HttpSender
import dev.tracetee.Moment
import dev.tracetee.Native
import dev.tracetee.NativeSender
import dev.tracetee.PendingProfile
import dev.tracetee.PlatformProfiling
import dev.tracetee.Profiling
import dev.tracetee.ProfilingDevice
import dev.tracetee.ProfilingLedger
import dev.tracetee.ProfilingRules
import dev.tracetee.ProfilingSource
import dev.tracetee.budgetHoldsWhenTheClockJumps
import dev.tracetee.budgetIsThatOfThePlatform
import dev.tracetee.jumpsOfAWeekChangeNothing
import java.io.File
import java.util.Random
import java.util.concurrent.Executors
import org.json.JSONObject

private const val DAY_MS = 24 * 3_600_000L

private lateinit var out: File
private lateinit var trace: ByteArray

fun main(arguments: Array<String>) {
    val isDone = try {
        run(arguments)
        true
    } catch (error: Throwable) {
        error.printStackTrace()
        false
    }
    System.out.flush()
    // As a kill: no callback runs any more.
    Runtime.getRuntime().halt(if (isDone) 0 else 1)
}

private fun run(arguments: Array<String>) {
    val (api, natives, directory, part) = arguments
    System.load(natives)
    check(Build.VERSION.SDK_INT == api.toInt()) { "this is API ${Build.VERSION.SDK_INT}" }
    out = File(directory)
    trace = File(arguments[4]).readBytes()
    check(Native.load()) { "${Native.loadError}" }
    when (part) {
        "old" -> olderSystemsAreLeftAlone()
        "one" -> processThatDies()
        "other" -> nextProcess(arguments[5])
        else -> {
            println("API $api: ${budgetIsThatOfThePlatform()}")
            budgetHoldsWhenTheClockJumps()
            jumpsOfAWeekChangeNothing()
            rulesAreThoseOfTheAgent()
            errorsAreLosses()
            aMissingResultIsALoss()
            triggers()
            println("API $api: profiles are asked for, matched and accounted for")
        }
    }
}

/** The whole library in its own directory. */
private class App(name: String, profiling: String, private val upload: String? = null, more: String = "") {
    val directory = File(out, name)
    val files = File(directory, "files").apply { mkdirs() }
    val agent = File(directory, "agent")
    val service = PlatformService(files)
    private val context = AppContext(files)
    private val config = """{"schema": 1, "seq": 1, "windows": [{"id": "hand", "opens": "manual", "cool_down_s": 0,
        "tags": ["app"]}], "profiling": $profiling$more}"""

    init {
        service.register()
        File(directory, "remote.json").writeText(config)
    }

    fun settings(): JSONObject {
        val settings = JSONObject().put("directory", agent.path).put("config_file", File(directory, "remote.json").path)
            .put("app", "com.example.app").put("process", "com.example.app").put("version_code", 7).put("version_name", "1.0")
            .put("api", Build.VERSION.SDK_INT)
        upload?.let { settings.put("upload", JSONObject().put("url", it).put("transport", "app")) }
        return settings
    }

    fun install() {
        check(Native.install(settings().toString()) == null)
        await("the configuration") { File(agent, "config.json").exists() }
        start()
    }

    fun start() {
        Profiling.start(context, settings())
        await("the start") { health().run { length() > 0 && optString("off") != "not started" } }
    }

    fun spool(directory: String): List<String> = File(agent, "spool/$directory").list().orEmpty().sorted()
}

private fun health() = JSONObject(Profiling.addTo("{}")).optJSONObject("profiling") ?: JSONObject()

private fun await(what: String, isThere: () -> Boolean) {
    val end = System.nanoTime() + 60_000_000_000
    while (!isThere()) {
        check(System.nanoTime() < end) { "$what did not come: ${Profiling.addTo("{}")}" }
        Thread.sleep(10)
    }
}

private const val COUNTS = """{"asked":1,"refused":1,"kept":1}"""

private const val REQUEST = """{"requests": [{"windows": ["hand"], "kind": "system_trace", "duration_s": 5, "buffer_kb": 8192,
    "priority": 3}]}"""

/** Opens the window, has a profile asked for, and dies before it comes. Says the request's tag. */
private fun processThatDies() {
    out.deleteRecursively()
    val app = App("death", REQUEST)
    app.install()
    await("a window") { Native.open("hand") == null && Native.isRecording() }
    val asked = app.service.nextRequest()
    check(asked.type == 4 && asked.parameters.getInt("KEY_DURATION_MS") == 5000 && asked.parameters.getInt("KEY_SIZE_KB") == 8192)
    check(asked.parameters.keySet().size == 2) { "${asked.parameters.keySet()}" }
    check(Native.close("hand") == null)
    await("the capture") { app.spool("ready").size == 1 }
    // The tag has the capture's id, and the digit that says that it is a profile.
    val capture = app.spool("ready").single().substringBefore('~')
    check(asked.tag == "tracetee-" + capture.replaceRange(14, 15, "8")) { "$capture: ${asked.tag}" }
    await("the note") { health().getInt("pending") == 1 }
    check(app.spool("lost").isEmpty())
    // A second one within the hour is not asked for.
    await("a window") { Native.open("hand") == null && Native.isRecording() }
    await("the refusal") { "hand: " in health().optString("last_refused") }
    check(Native.close("hand") == null && app.service.asked.isEmpty())
    await("the second capture") { app.spool("ready").size == 2 }
    println("tag ${asked.tag}")
}

/** The result of the dead process comes; the collector gets it, and the capture. */
private fun nextProcess(url: String) {
    val app = App("death", REQUEST, url)
    val tag = "tracetee-" + app.spool("ready").first().substringBefore('~').replaceRange(14, 15, "8")
    app.install()
    await("the registration, without a request") { app.service.isRegistered }
    // A second installation gets no result twice.
    Profiling.stop()
    await("the stop") { health().length() == 0 }
    app.start()
    val file = app.service.file("profile_${tag.take(20)}.perfetto-trace", trace)
    app.service.give(file, tag)
    await("the profile") { health().getInt("pending") == 0 }
    val name = app.spool("ready").single { it.startsWith(tag.removePrefix("tracetee-")) }
    check("~system_trace.hand~3~0~~" in name) { name }
    check(!file.exists() && app.spool("ready").size == 3 && health().getJSONObject("counts").toString() == COUNTS) { "${health()}" }
    // Again, and one of the app's own, which stays.
    app.service.give(app.service.file("again", trace), tag)
    val own = app.service.file("own", trace)
    app.service.give(own, "the app's own")
    await("the second one") { health().getJSONObject("counts").optLong("late") == 1L }
    check(own.exists() && app.spool("ready").size == 3 && app.spool("lost").isEmpty()) { "${app.spool("lost")}" }
    val report = Native.upload("""{"network": "unmetered", "charging": true}""", NativeSender(HttpSender))
    check(JSONObject(report).getJSONArray("delivered").length() == 3) { report }
    check(app.spool("ready").isEmpty())
    println("delivered ${tag.removePrefix("tracetee-")}")
}

/** A source with clocks of its own, over the real manager. */
private class Source(name: String, profiling: String) {
    val app = App(name, profiling)
    var moment = Moment(1, 1_000, 1_790_000_000_000)
    private val worker = Executors.newSingleThreadExecutor()
    private val context = AppContext(app.files)
    val ledger: ProfilingLedger
    var source: ProfilingSource

    init {
        app.agent.mkdirs()
        File(app.agent, "config.json").writeText(File(app.directory, "remote.json").readText())
        ledger = ProfilingLedger(app.agent) { moment }
        source = process()
    }

    private fun process(): ProfilingSource {
        val device = { id: String -> ProfilingDevice(id, 7, Build.VERSION.SDK_INT) }
        return ProfilingSource(app.agent, "device", device, worker, { moment }) { PlatformProfiling.ask(context) }
    }

    /** Continues as another process of the app. */
    fun restart() {
        source = process()
    }

    fun run(call: (ProfilingSource) -> Unit) {
        worker.submit { call(source) }.get()
    }

    fun pass(ms: Long, jumpMs: Long = 0) {
        moment = Moment(moment.boot, moment.bootMs + ms, moment.realMs + ms + jumpMs)
    }

    /** Asks for a profile of a new capture. */
    fun ask(number: Int): Asked {
        run { it.captureBegun("hand", "0199a1fd-2955-7cfa-a44a-%012x".format(number)) }
        return app.service.nextRequest()
    }

    /** Waits for results that were given. */
    fun settle() = run { }

    fun lost() = app.spool("lost").map { it.substringAfter('~') }
}

/** Each error of the platform, a result without a file, a file that is none, one that is too large, a service that is dead. */
private fun errorsAreLosses() {
    val source = Source("errors", """{"requests": [{"windows": ["hand"], "kind": "java_heap_dump"}], "max_bytes": 65536}""")
    val expected = ArrayList<String>()
    fun loses(number: Int, reason: String, give: (Asked) -> Unit) {
        source.pass(8 * DAY_MS)
        give(source.ask(number))
        source.settle()
        expected += "java_heap_dump.hand~$reason"
        check(source.lost().sorted() == expected.sorted()) { "$reason: ${source.lost()}" }
        check(source.source.health().getJSONObject("counts").getLong(reason) > 0)
    }
    val names = listOf(
        "rate_limit_system", "rate_limit_process", "in_progress", "executing", "post_processing", "no_disk_space", "invalid_request", "unknown",
    )
    names.forEachIndexed { index, name ->
        loses(index, "platform_$name") { asked ->
            check(asked.type == 1 && asked.parameters.isEmpty)
            source.app.service.give(null, asked.tag, index + 1)
        }
    }
    loses(20, "platform_error_99") { source.app.service.give(null, it.tag, 99) }
    // The real manager makes an unknown error of it.
    loses(21, "platform_unknown") { source.app.service.give(null, it.tag) }
    loses(22, "no_file") { source.app.service.give(File("/nowhere/it-is"), it.tag) }
    loses(23, "damaged") { source.app.service.give(source.app.service.file("text", "# no trace".toByteArray()), it.tag) }
    loses(24, "damaged") { source.app.service.give(source.app.service.file("cut", trace.copyOf(trace.size - 1)), it.tag) }
    loses(28, "damaged") { source.app.service.give(source.app.service.file("tag", trace + byteArrayOf(0x12, 0x01, 0x00)), it.tag) }
    val noise = ByteArray(90_000).also(Random(3)::nextBytes)
    val large = byteArrayOf(0x0a, 0x90.toByte(), 0xbf.toByte(), 0x05) + noise
    loses(26, "damaged") { source.app.service.give(source.app.service.file("length", trace + byteArrayOf(0x0a, 0x90.toByte())), it.tag) }
    loses(27, "size") {
        val huge = byteArrayOf(0x0a, 0x80.toByte(), 0x80.toByte(), 0x80.toByte(), 0x40)
        source.app.service.give(source.app.service.file("huge", huge), it.tag)
    }
    loses(25, "size") { source.app.service.give(source.app.service.file("large", large), it.tag) }
    check(source.app.files.walk().none { it.isFile }) { "a result was left: ${source.app.files.walk().toList()}" }
    // The service dies: the manager throws, the app continues.
    source.pass(8 * DAY_MS)
    source.app.service.isDead = true
    source.run { it.captureBegun("hand", "0199a1fd-2955-7cfa-a44a-000000000099") }
    check("java_heap_dump.hand~platform_threw" in source.lost()) { "${source.lost()}" }
    // Without consent nothing is requested.
    source.app.service.isDead = false
    source.pass(8 * DAY_MS)
    File(source.app.agent, "spool/off").createNewFile()
    source.run { it.captureBegun("hand", "0199a1fd-2955-7cfa-a44a-000000000098") }
    check(source.app.service.asked.isEmpty() && source.source.health().getString("off") == "the user has not consented")
    // A ledger that cannot be read stops requests for a week, and nothing else.
    File(source.app.agent, "spool/off").delete()
    File(source.app.agent, "profiling.json").writeText("{\"spent\": ")
    source.run { it.captureBegun("hand", "0199a1fd-2955-7cfa-a44a-000000000097") }
    check(source.app.service.asked.isEmpty() && "per_hour: 30 of 10" in source.source.health().getString("last_refused"))
    source.pass(8 * DAY_MS)
    source.ask(96)
}

private fun aMissingResultIsALoss() {
    val source = Source("never", """{"requests": [{"windows": ["hand"], "kind": "stack_sampling", "frequency_hz": 50}]}""")
    val asked = source.ask(1)
    check(asked.type == 3 && asked.parameters.getInt("KEY_FREQUENCY_HZ") == 50 && asked.parameters.getInt("KEY_DURATION_MS") == 10_000)
    // A second capture while it is recorded, and one after it.
    for (why in listOf("hand: stack_sampling.hand is being recorded", "hand: per_hour: 10 of 10 are spent, 10 more are needed")) {
        source.run { it.captureBegun("hand", "0199a1fd-2955-7cfa-a44a-000000000002") }
        check(source.source.health().getString("last_refused") == why && source.app.service.asked.isEmpty()) { "${source.source.health()}" }
        source.pass(10_000)
    }
    // The clock jumps a week, and a bit of time passes.
    source.pass(1000, jumpMs = 8 * DAY_MS)
    source.run { it.refresh() }
    check(source.lost().isEmpty() && source.ledger.read().pending.size == 1)
    source.pass(7 * DAY_MS - 21_000)
    source.run { it.refresh() }
    check(source.lost().isEmpty())
    source.pass(1)
    source.run { it.refresh() }
    check(source.lost() == listOf("stack_sampling.hand~never_came") && source.ledger.read().pending.isEmpty()) { "${source.lost()}" }
    check(source.source.health().getJSONObject("counts").getLong("never_came") == 1L)
    // It comes after all: it was reported as lost, so it is not delivered.
    source.app.service.give(source.app.service.file("late", trace), asked.tag)
    source.settle()
    check(source.app.spool("ready").isEmpty() && source.source.health().getJSONObject("counts").getLong("late") == 1L)
}

/** Events of the system, one by one: those that it does not know are said. */
private fun triggers() {
    val rules = """{"triggers": [{"on": "anr", "period_h": 6, "priority": 2}, {"on": "cold_start"}, {"on": "app_fully_drawn"}]}"""
    val source = Source("triggers", rules)
    source.run { it.refresh() }
    val unknown = source.source.health().getJSONArray("unknown_triggers")
    if (Build.VERSION.SDK_INT < 36) {
        check(source.app.service.triggers.isEmpty() && unknown.length() == 3)
        return
    }
    check(source.app.service.triggers == mapOf(1 to 24, 2 to 6)) { "${source.app.service.triggers}" }
    check(unknown.length() == 1 && unknown.getString(0) == "cold_start") { "$unknown" }
    val file = source.app.service.file("anr", trace)
    source.app.service.give(file, null, trigger = 2)
    source.settle()
    val name = source.app.spool("ready").single()
    check(name[14] == '8' && "~system_trace.anr~2~0~~" in name) { name }
    check(file.exists() && source.ledger.read().spent.single().second == 5)
    source.app.service.give(null, null, error = 4, trigger = 1)
    source.settle()
    check(source.lost() == listOf("system_trace.app_fully_drawn~platform_executing"))
    // The configuration drops one: it is taken back, and its results are nobody's.
    val config = File(source.app.agent, "config.json")
    config.writeText(config.readText().replace("""{"on": "anr", "period_h": 6, "priority": 2}, """, ""))
    source.run { it.refresh() }
    check(source.app.service.triggers == mapOf(1 to 24)) { "${source.app.service.triggers}" }
    source.app.service.give(file, null, trigger = 2)
    source.settle()
    check(source.app.spool("ready").size == 1)
    config.writeText(config.readText().replace("\"seq\": 1", "\"seq\": 2, \"kill\": {\"on\": true}"))
    // Another process has registered it.
    source.restart()
    source.run { it.refresh() }
    check(source.app.service.triggers.isEmpty() && source.source.health().getString("off") == "the kill switch is on")
}

/** Which devices have a rule is decided as the agent does. */
private fun rulesAreThoseOfTheAgent() {
    // As `bucket` of the agent's policy.rs computes them.
    for ((salted, bucket) in BUCKETS) check("%.4f".format(ProfilingRules.bucket(salted)) == bucket) { "$salted: ${ProfilingRules.bucket(salted)}" }
    fun rules(profiling: String, more: String = "") = ProfilingRules.read(
        JSONObject("""{"schema": 1, "seq": 1, "profiling": $profiling$more}"""), ProfilingDevice("device", 7, 35), 1_000_000,
    )
    fun requests(more: String) = rules("""{"requests": [{"windows": ["hand"], "kind": "heap_profile"$more}]}""")
    check(requests("").requests.size == 1 && requests(""", "sampling": {"percent": 0}""").isEmpty)
    check(requests(""", "match": {"api": [36, 40]}""").isEmpty && requests(""", "match": {"version_code": [7, 7], "api": [35, 35]}""").requests.size == 1)
    check(requests("""}], "x": [{"y": 1""").off == null && "unknown kind" in rules("""{"requests": [{"windows": [], "kind": "x"}]}""").off!!)
    check(rules("{}", """, "not_after": 999""").off == "the configuration has expired" && rules("{}", """, "not_after": 1000""").off == null)
    check(rules("{}", """, "redaction": {"strict": true}""").off == "redaction is strict")
    check(rules("{}", """, "sampling": {"percent": 0}""").off == "not sampled")
    val pending = PendingProfile("id", "label", 1, Moment(2, 3, 4), 5)
    check(pending.at.toText() == "2-3-4" && Moment.parse("ff-0-1").boot == 255L)
}

private val BUCKETS = listOf("deviceprofiling" to "54.6330", "0123456789abcdef0123456789abcdef" to "24.4900")

private fun olderSystemsAreLeftAlone() {
    out.mkdirs()
    File(out, "config.json").writeText("""{"schema": 1, "seq": 1, "profiling": $REQUEST}""")
    val settings = JSONObject().put("directory", out.path).put("version_code", 7)
    Profiling.start(object : android.content.ContextWrapper(null) {}, settings)
    Native.captureBegun("hand", "0199a1fd-2955-7cfa-a44a-000000000001")
    check(Profiling.addTo("{}") == "{}")
    check(Thread.getAllStackTraces().keys.none { it.name == "tracetee-profiling" })
    println("API ${Build.VERSION.SDK_INT}: nothing is asked for")
}
