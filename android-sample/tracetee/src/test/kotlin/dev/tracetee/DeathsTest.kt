package dev.tracetee

import android.app.Activity
import android.app.ActivityManager
import android.app.ApplicationExitInfo
import android.content.Context
import java.io.ByteArrayInputStream
import java.io.File
import java.io.InputStream
import java.util.Collections
import java.util.Random
import org.json.JSONArray
import org.json.JSONObject
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.annotation.Implementation
import org.robolectric.annotation.Implements
import org.robolectric.shadows.ShadowActivityManager
import org.robolectric.shadows.ShadowActivityManager.ApplicationExitInfoBuilder

/** Tests reports of ended processes with AOSP's own ApplicationExitInfo. The last test needs what [AppTest] does. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [34, 36], manifest = Config.NONE, shadows = [Summaries::class])
class DeathsTest : CaptureTest() {
    private val manager get() = app.getSystemService(Context.ACTIVITY_SERVICE) as ActivityManager
    private val directory: File = File.createTempFile("agent", "").apply { delete(); mkdirs() }

    /** The reports that the agent got. */
    private val reported = ArrayList<JSONArray>()
    private var id = 0

    /** Times of the clock that limits the reading of dumps. */
    private var dumpNs = { 0L }

    /** The app was updated to version 7 at that time. */
    private val reports = reports()

    private fun reports() = DeathReports(
        directory, "id", { ProfilingDevice(it, 7, 36) }, 7L to 1_000L,
        { json ->
            val exits = JSONObject(json).getJSONArray("exits")
            reported += exits
            JSONArray(List(exits.length()) { "0193a4b2-0000-7000-8000-%012x".format(id++) }).toString()
        },
        { Moment(1, 2, 3_000_000) }, { dumpNs() },
    )

    @Before
    fun begin() {
        Summaries.left.clear()
        configure("""{"schema": 1, "seq": 1, "deaths": {"dumps": true}}""")
    }

    private fun configure(document: String) = File(directory, "config.json").writeText(document)

    private fun exit(pid: Int, atMs: Long, reason: Int = ApplicationExitInfo.REASON_ANR, more: (ApplicationExitInfoBuilder) -> Unit = {}) {
        val exit = ApplicationExitInfoBuilder.newBuilder().setPid(pid).setTimestamp(atMs).setReason(reason).setProcessName(app.packageName)
        shadowOf(manager).addApplicationExitInfo(exit.also(more).build())
    }

    /** Reports what the system has now. Returns what the agent got. */
    private fun look(by: DeathReports = reports): List<JSONObject> {
        by.report(PlatformExits(manager, app.packageName).all())
        return reported.removeAt(0).let { exits -> List(exits.length()) { exits.getJSONObject(it) } }
    }

    private fun pids(exits: List<JSONObject>) = exits.map { it.getJSONObject("death").getInt("pid") }

    @Test
    fun aSummaryIsShortAndReadsBack() {
        for (screen in listOf("", "Checkout", "x".repeat(91), "x".repeat(500), "ä".repeat(60), "x" + "画".repeat(60))) {
            val bytes = StateSummary(-7, 1, 2, 3, true, screen).toBytes()
            assertTrue("${bytes.size}", bytes.size <= StateSummary.MOST)
            val read = StateSummary.read(bytes)!!
            assertEquals(listOf(-7L, 1L, 2L, 3L, true), listOf(read.run, read.startMs, read.vsyncNs, read.versionCode, read.isShown))
            assertTrue(read.screen, screen.startsWith(read.screen) && read.screen.length >= minOf(screen.length, 29))
            for (length in 0..36) assertNull(StateSummary.read(bytes.copyOf(length)))
        }
        for (other in listOf(null, ByteArray(0), "embrace".toByteArray(), ByteArray(128))) assertNull(StateSummary.read(other))
    }

    /** 500 ends of all reasons, in looks of at most 16: each is reported once, with its reason, its process and its screen. */
    @Test
    fun eachEndIsReportedOnceWithItsReason() {
        val random = Random(52)
        look()
        var taken = 0
        var atMs = 1_800_000_000_000L
        while (taken < 500) {
            val planted = HashMap<Int, JSONObject>()
            repeat(1 + random.nextInt(16)) { index ->
                val (reason, description, expected) = FORMS[random.nextInt(FORMS.size)]
                val importance = intArrayOf(100, 125, 200, 230, 300, 400, 1000)[random.nextInt(7)]
                val summary = if (random.nextBoolean()) StateSummary(random.nextLong(), 5, 6, 3, random.nextBoolean(), "Screen$index") else null
                // Pids come again with each check, the clock goes back now and then.
                atMs += random.nextInt(100_000) - if (random.nextInt(10) == 0) 3_600_000 else 0
                val process = app.packageName + if (random.nextBoolean()) "" else ":remote"
                exit(index, atMs, reason) {
                    it.setDescription(description).setImportance(importance).setStatus(9).setPss(10).setRss(20).setProcessName(process)
                    it.setProcessStateSummary(summary?.toBytes())
                }
                planted[index] = JSONObject().put("reason", expected).put("at_ms", atMs).put("process", process)
                    .put("visible", importance <= 200 || summary?.isShown == true).put("screen", summary?.screen.orEmpty())
                    .put("run", summary?.let { DeathReports.runText(it.run) }.orEmpty()).put("code", if (summary == null) 7 else 3)
            }
            val exits = look()
            assertEquals(planted.keys, pids(exits).toSet())
            for (exit in exits) {
                val death = exit.getJSONObject("death")
                val expected = planted[death.getInt("pid")]!!
                for (field in listOf("reason", "at_ms", "process", "visible", "screen")) assertEquals(field, expected.get(field), death.get(field))
                assertEquals(expected.getString("run"), exit.getString("run"))
                assertEquals(expected.getInt("code"), exit.getInt("version_code"))
                assertEquals(expected.getString("reason") !in ORDERLY, exit.getBoolean("alone"))
            }
            assertEquals("again", emptyList<Int>(), pids(look()))
            taken += exits.size
        }
        assertEquals(taken.toLong(), reports.counts()!!.run { keys().asSequence().sumOf { getLong(it) } })
    }

    @Test
    fun endsFromBeforeTheFirstLookAreNotReported() {
        exit(1, 5_000)
        assertEquals("before the installation", emptyList<Int>(), pids(look()))
        exit(1, 6_000)
        assertEquals("the same pid", listOf(1), pids(look()))
        exit(2, 4_000)
        assertEquals("a clock that was set back", listOf(2), pids(look(reports())))
        File(directory, "deaths.json").writeText("{")
        exit(3, 7_000)
        assertEquals("a damaged file", emptyList<Int>(), pids(look()))
        exit(4, 7_000) { it.setProcessName("${app.packageName}:remote") }
        exit(5, 500)
        val exits = look()
        assertEquals(setOf(4, 5), pids(exits).toSet())
        // Of a version from before the update.
        assertEquals(mapOf(4 to 7, 5 to 0), pids(exits).zip(exits.map { it.getInt("version_code") }).toMap())
        directory.deleteRecursively()
        assertEquals("installed anew", emptyList<Int>(), pids(look(reports())))
    }

    @Test
    fun whatTheConfigurationForbidsIsCountedAndNotReported() {
        look()
        val off = listOf(
            """{"schema": 1, "seq": 1, "deaths": {"on": false}}""", """{"schema": 1, "seq": 1, "kill": {"on": true}}""",
            """{"schema": 1, "seq": 1, "not_after": 0}""", """{"schema": 1, "seq": 1, "sampling": {"percent": 0}}""", "{",
        )
        off.forEachIndexed { index, document ->
            configure(document)
            exit(index, 9_000L + index)
            assertEquals(document, emptyList<Int>(), pids(look()))
        }
        configure("""{"schema": 1, "seq": 1}""")
        File(directory, "spool").mkdirs()
        File(directory, "spool/off").writeText("")
        exit(90, 90_000)
        assertEquals("no consent", emptyList<Int>(), pids(look()))
        assertEquals(off.size + 1L, reports.counts()!!.getLong("anr"))
    }

    /** Stands in for API 37, of which no classes are published: the four getters of developer.android.com, which Robolectric's exit lacks. */
    class Exit37(private val info: Any?) {
        class AnrInfo(val anrType: Int, val timeoutMillis: Long, private val isSeen: Boolean) {
            val anrId: Int get() = 4711
            fun isUserPerceptible() = isSeen
        }

        fun getAnrInfo() = info
    }

    @Test
    fun anAnrOfApi37HasItsTypeItsTimeAndWhetherTheUserNoticedIt() {
        fun death(exit: Any, description: String = "", importance: Int = 400): JSONObject {
            val plain = ProcessExit(6, description, 0, importance, 1_000L + id, 7, app.packageName, 0, 0, null, AnrFacts.of(exit)) { null }
            reports.report(listOf(plain))
            return reported.removeAt(0).getJSONObject(0).getJSONObject("death")
        }
        look()
        val input = death(Exit37(Exit37.AnrInfo(2, 5_000, true)), "Input dispatching timed out. Waited 5003ms for MotionEvent")
        assertEquals("Input dispatching timed out. Waited 5003ms for MotionEvent (input_dispatch)", input.getString("description"))
        assertTrue("noticed in the background", input.getBoolean("visible"))
        val service = death(Exit37(Exit37.AnrInfo(5, 20_000, false)))
        assertEquals("(execute_service) Waited 20000ms", service.getString("description"))
        assertTrue("silent", !service.getBoolean("visible"))
        assertEquals("(type 11) Waited 1ms", death(Exit37(Exit37.AnrInfo(11, 1, false))).getString("description"))
        // Of no ANR, of an older system, and of classes that differ.
        for (exit in listOf(Exit37(null), Any(), Exit37("other"))) assertEquals("as it was", death(exit, "as it was").getString("description"))
    }

    @Test
    fun dumpsComeIntoTheSpoolWhereTheyAreAllowed() {
        look()
        val ready = File(directory, "spool/ready")
        fun kept(reason: Int, stream: InputStream?): List<String> {
            ready.deleteRecursively()
            exit(id + 1, 10_000L + id, reason) { it.setTraceInputStream(stream) }
            look()
            return ready.list().orEmpty().toList()
        }
        fun lost() = File(directory, "spool/lost").list().orEmpty().map { it.substringAfterLast('~') }
        val text = "\"main\" prio=5 tid=1 Blocked\n".toByteArray()
        val name = kept(ApplicationExitInfo.REASON_ANR, ByteArrayInputStream(text)).single()
        // The id of the capture, of version 8.
        assertTrue(name, Regex("0193a4b2-0000-8000-8000-[0-9a-f]{12}~anr_dump.anr~0~0~~.*\\.ftrace\\.zst").matches(name))
        // A frame that stores its one block.
        assertArrayEquals(text, File(ready, name).readBytes().drop(12).toByteArray())
        assertTrue("~tombstone.crash_native~" in kept(ApplicationExitInfo.REASON_CRASH_NATIVE, ByteArrayInputStream(text)).single())
        assertEquals("none", emptyList<String>(), kept(ApplicationExitInfo.REASON_ANR, null))
        assertEquals("another reason", emptyList<String>(), kept(ApplicationExitInfo.REASON_LOW_MEMORY, ByteArrayInputStream(text)))
        assertEquals(emptyList<String>(), lost())
        kept(ApplicationExitInfo.REASON_ANR, Endless())
        assertTrue("${ready.listFiles()!!.single().length()}", ready.listFiles()!!.single().length() in (1L shl 20)..(1L shl 20) + 1000)
        assertEquals("half a protobuf", emptyList<String>(), kept(ApplicationExitInfo.REASON_CRASH_NATIVE, Endless()))
        assertEquals(listOf("size"), lost())
        dumpNs = { dumpNs = { 6_000_000_000 }; 0 }
        assertEquals("slow", emptyList<String>(), kept(ApplicationExitInfo.REASON_ANR, Endless()))
        assertEquals(setOf("size", "slow"), lost().toSet())
        for (document in listOf("""{"schema": 1}""", """{"redaction": {"strict": true}, "deaths": {"dumps": true}}""")) {
            configure(document)
            assertEquals(document, emptyList<String>(), kept(ApplicationExitInfo.REASON_ANR, ByteArrayInputStream(text)))
        }
    }

    private class Endless : InputStream() {
        override fun read(): Int = 'x'.code
    }

    /** With the real agent: an end becomes a capture, and screens go into summaries, unless another library has its own there. */
    @Test
    fun anEndIsReportedAndScreensAreSummarized() {
        val agent = File(app.noBackupFilesDir, "tracetee").apply { mkdirs() }
        File(agent, "config.json").writeText(REMOTE)
        File(agent, "deaths.json").writeText("{}")
        exit(4711, System.currentTimeMillis(), ApplicationExitInfo.REASON_LOW_MEMORY) { it.setDescription("mail bob@example.com") }
        install(TraceteeConfig.Builder())
        val ready = File(agent, "spool/ready")
        await("the report") { ready.list().orEmpty().size == 1 }
        assertTrue("~death~0~" in ready.list()!!.single())
        file.writeBytes(ProcessBuilder(System.getenv("TRACETEE"), "convert", ready.listFiles()!!.single().path, "-o", "-", "--to", "ftrace").start().inputStream.readBytes())
        assertTrue(file.readText(), "\"reason\":\"low_memory\"" in file.readText() && "bob@" !in file.readText())
        fun summaries() = Summaries.left.map { StateSummary.read(it.second)!! }
        await("the first summary") { summaries().isNotEmpty() }
        assertEquals(1L, JSONObject(Tracetee.health()!!.json).getJSONObject("deaths").getLong("low_memory"))
        val activity = Robolectric.buildActivity(Activity::class.java).setup()
        repeat(50) { Tracetee.setScreen("Checkout") }
        await("the screen") { summaries().last().run { screen == "Checkout" && isShown } }
        activity.pause().stop()
        await("no screen") { summaries().last().run { screen == "Checkout" && !isShown } }
        assertTrue(summaries().first().screen, summaries().first().screen.isEmpty() && summaries().map { it.run }.distinct().size == 1)
        val times = Summaries.left.map { it.first }
        assertTrue("$times", times.zipWithNext { one, next -> next - one }.all { it >= 4_900_000_000 } && times.size <= 4)
        assertEquals(setOf("tracetee-deaths"), Summaries.threads)
        Tracetee.uninstall()

        exit(4712, 5) { it.setProcessStateSummary("another library's".toByteArray()) }
        install(TraceteeConfig.Builder())
        await("the second report") { ready.list().orEmpty().size == 2 }
        Thread.sleep(1000)
        assertEquals(times.size, Summaries.left.size)
    }

    /**
     * The process's own recorder, as a kill leaves it: the next start joins it by the summary, and the capture has the
     * samples of the late main thread.
     */
    @Test
    fun samplesOfAKilledProcessAreInTheCaptureOfItsEnd() {
        val agent = File(app.noBackupFilesDir, "tracetee").apply { mkdirs() }
        val document = REMOTE.replace("\"opens\"", "\"recorder\": {\"crash_proof\": true}, \"opens\"")
        File(agent, "config.json").writeText(document)
        install(TraceteeConfig.Builder(), document)
        await("the summary") { Summaries.left.isNotEmpty() }
        open()
        StackWriter(4711).run {
            beginRow()
            write(arrayOf(StackTraceElement("com.example.Late", "wait", null, 1)), 0, 5_000_000)
        }
        val recorder = File(agent, "pools").listFiles()!!.single()
        // As long as it is ours, its lock says that the process lives.
        val left = recorder.copyTo(File(agent, "left.pool"))
        assertDone(Tracetee.closeWindow("hand"))
        val ready = File(agent, "spool/ready")
        await("a capture") { ready.list().orEmpty().size == 1 }
        Tracetee.uninstall()
        ready.listFiles()!!.single().delete()
        left.renameTo(File(agent, "pools/left.pool"))
        val pid = ProcessHandle.current().pid().toInt()
        exit(pid + 1, System.currentTimeMillis()) { it.setProcessStateSummary(Summaries.left.last().second) }
        exit(pid, 5) { it.setProcessStateSummary(Summaries.left.last().second).setDescription("Input dispatching timed out") }

        install(TraceteeConfig.Builder(), document)
        await("both reports") { ready.list().orEmpty().size == 2 }
        val texts = ready.listFiles()!!.associate { capture ->
            val text = ProcessBuilder(System.getenv("TRACETEE"), "convert", capture.path, "-o", "-", "--to", "ftrace").start().inputStream
            capture.name.split('~')[1] to text.bufferedReader().readText()
        }
        val text = texts["recovered"]!!
        for (expected in listOf("\"joined_by\":\"summary\"", "Input dispatching timed out", "tracetee: stack\n", "com.example.Late.wait")) {
            assertTrue("$expected: $text", expected in text)
        }
        assertTrue(texts["death"]!!, "\"joined_by\":\"\"" in texts["death"]!!)
    }

    private companion object {
        val ORDERLY = setOf("exit_self", "user_requested", "user_stopped", "package_updated", "permission_change", "package_state_change")

        /** Reason, description, and the word for it. */
        val FORMS = ApplicationExitInfo::class.java.fields.filter { it.name.startsWith("REASON_") }
            .map { Triple(it.getInt(null), "", it.name.removePrefix("REASON_").lowercase()) } + listOf(
            Triple(ApplicationExitInfo.REASON_OTHER, "MemoryLimiter:AnonSwap", "memory_limiter"),
            Triple(17, "", "memory_limiter"), Triple(18, "", "anomaly"), Triple(99, "", "unknown_99"), Triple(99, "MemoryLimiter:AnonSwap 5", "memory_limiter"),
        )
    }
}

/** Takes the summaries that the app leaves with the system. */
@Implements(ActivityManager::class)
class Summaries : ShadowActivityManager() {
    @Implementation
    fun setProcessStateSummary(bytes: ByteArray) {
        threads += Thread.currentThread().name
        left += System.nanoTime() to bytes
    }

    companion object {
        val left: MutableList<Pair<Long, ByteArray>> = Collections.synchronizedList(ArrayList())
        val threads: MutableSet<String> = Collections.synchronizedSet(HashSet())
    }
}
