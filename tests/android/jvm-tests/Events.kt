// Records with details from Kotlin: each has its details in the trace's line before it, whatever they are.
import android.os.Build
import dev.tracetee.CaptureOptions
import dev.tracetee.Event
import dev.tracetee.Tracetee
import java.io.File
import java.util.Random
import org.json.JSONArray
import org.json.JSONObject

private const val ROUNDS_OF_EVENTS = 2000
private const val ALPHABET = "aB3 |/\\\"'<[\n\u0001äß€漢😀\u2028"

/** Writes events with random details, and compares them with those of the trace. */
fun events(file: File) {
    // None of it depends on the platform's level.
    if (Build.VERSION.SDK_INT != 35) return
    val random = Random(34)
    fun text(most: Int) = buildString {
        // Half of a pair may come out of this; it is not a character.
        repeat(random.nextInt(most)) { append(ALPHABET[random.nextInt(ALPHABET.length)]) }
    }
    val now = Class.forName("dev.tracetee.Native").getMethod("nowNs")
    val expected = ArrayList<Pair<String, JSONObject>>()
    expect(Tracetee.startCapture(CaptureOptions.Builder().setCapacityKb(16_384).build()))
    for (round in 0 until ROUNDS_OF_EVENTS) {
        val event = Event.get()
        val args = JSONObject()
        val details = JSONObject()
        if (random.nextBoolean()) {
            val category = text(20) + "c"
            event.category(category)
            details.put("cat", category.whole())
        }
        repeat(random.nextInt(4)) { place ->
            val key = "k$place"
            when (random.nextInt(4)) {
                0 -> text(60).let { event.arg(key, it); args.put(key, it.whole()) }
                1 -> random.nextLong().let { event.arg(key, it); args.put(key, it) }
                2 -> random.nextGaussian().let { event.arg(key, it); args.put(key, it) }
                else -> random.nextBoolean().let { event.arg(key, it); args.put(key, it) }
            }
        }
        if (args.length() > 0) details.put("args", args)
        if (random.nextBoolean()) {
            event.flowBegin(round.toLong()).flowStep(-1).flowEnd(Long.MAX_VALUE)
            details.put("flows", listOf("begin:$round", "step:18446744073709551615", "end:${Long.MAX_VALUE}"))
        }
        when (round % 6) {
            0 -> event.instant("event $round")
            1 -> event.instant("track", "event $round")
            2 -> event.beginSection("event $round").also { Event.get().endSection() }
            3 -> event.beginAsync("event $round", round).also { Event.get().endAsync("event $round", round) }
            4 -> event.beginTrack("track", "event $round", round).also { Event.get().endTrack("track", round) }
            else -> (now.invoke(null) as Long).let { event.complete("event $round", it, it) }
        }
        expected.add("event $round" to details)
    }
    Event.get().counter("fraction", 0.1 + 0.2)
    Event.get().counter("fraction", "of it", -2.5)
    // Arguments without room are counted, and the next event is whole.
    val full = Event.get()
    repeat(20) { full.arg("long", "x".repeat(600)) }
    full.instant("full")
    Event.get().arg("next", 1).instant("after it")
    // Details that nobody has written are gone.
    Event.get().arg("forgotten", 1).threadTime()
    Event.get().instant("without details")
    Event.get().threadTime().instant("cpu")
    // A bar would end the track's name.
    Event.get().instant("a|track", "with a bar")
    expect(Tracetee.stopCapture())
    expect(Tracetee.dump(file))

    val lines = file.readLines()
    fun before(record: String): JSONObject {
        val at = lines.indexOfFirst { record in it }
        check(at > 0) { "no $record in $file" }
        return lines[at - 1].takeIf { it.startsWith("#@ ") }?.let { JSONObject(it.substring(3)) } ?: JSONObject()
    }
    val places = HashMap<String, Int>()
    lines.forEachIndexed { place, line ->
        Regex("""[BSGINX]\|\d+\|.*(event \d+)""").find(line)?.let { places.putIfAbsent(it.groupValues[1], place) }
    }
    for ((name, details) in expected) {
        val place = checkNotNull(places[name]) { "no $name in $file" }
        val line = lines[place - 1]
        val seen = if (line.startsWith("#@ ")) JSONObject(line.substring(3)) else JSONObject()
        check(plain(seen) == plain(details)) { "$name: $seen instead of $details" }
    }
    check(before("C|${pid()}|fraction|0").getDouble("value") == 0.1 + 0.2)
    check(before("C|${pid()}|fraction.of it|-2").getDouble("value") == -2.5)
    before("I|${pid()}|full").run { check(getInt("left_out") == 19 && getJSONObject("args").getString("long").length == 500) }
    check(plain(before("I|${pid()}|after it")) == mapOf("args" to mapOf("next" to 1L)))
    check(plain(before("I|${pid()}|without details")) == emptyMap<String, Any>())
    check(lines.any { "N|${pid()}|a track|with a bar" in it })
    check(before("I|${pid()}|cpu").getLong("cpu_ns") > 0)
    println("events: ${lines.size} lines")
}

private fun plain(value: Any?): Any? = when (value) {
    is JSONObject -> value.keys().asSequence().associateWith { plain(value.get(it)) }
    is JSONArray -> (0 until value.length()).map { plain(value.get(it)) }
    is Int -> value.toLong()
    else -> value
}

private fun pid() = ProcessHandle.current().pid()

/** The text with halves of pairs replaced, as the agent has it. */
private fun String.whole(): String {
    val out = StringBuilder()
    var place = 0
    while (place < length) {
        val isPair = this[place].isHighSurrogate() && place + 1 < length && this[place + 1].isLowSurrogate()
        if (isPair) out.append(this[place++]).append(this[place]) else out.append(if (this[place].isSurrogate()) '\ufffd' else this[place])
        place++
    }
    return out.toString()
}
