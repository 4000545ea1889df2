// Feeds AOSP's FrameData of API 33 or later to the library's own callback, and looks at what it takes.
import android.view.Choreographer
import dev.tracetee.BootTime
import dev.tracetee.FrameRecord
import dev.tracetee.FrameSink

internal const val MS = 1_000_000L

internal fun expect(expected: Any?, actual: Any?) = check(expected == actual) { "expected $expected\n but was $actual" }

/** Keeps the text of each frame. */
internal class Texts(api: Int, clock: BootTime = BootTime({ 0 }, { 0 })) : FrameSink(clock, api) {
    val all = ArrayList<String>()
    var throws = false

    override fun write(frame: FrameRecord) {
        check(!throws) { "planted" }
        all.add(frame.source + " " + frame.text(clock))
    }
}

fun main() {
    deadlines()
    println("verdicts: deadlines of frames that have begun, in the callback and outside: as expected")
}

internal val unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe").apply { isAccessible = true }.get(null) as sun.misc.Unsafe

/** Makes an object of the platform's with those of the fields that it has: their names differ by level. */
internal inline fun <reified T : Any> made(vararg fields: Pair<String, Any>): T {
    val made = unsafe.allocateInstance(T::class.java) as T
    for ((name, value) in fields) {
        val field = T::class.java.declaredFields.find { it.name == name } ?: continue
        field.isAccessible = true
        field.set(made, value)
    }
    return made
}

/** A frame of the vsync 4711 as Choreographer hands it to a callback, with an earlier timeline that the platform does not prefer. */
internal fun begun(inCallback: Boolean = true): Choreographer.FrameData {
    fun timeline(id: Long, dueMs: Long, shownMs: Long): Choreographer.FrameTimeline = made(
        "mVsyncId" to id,
        "mDeadlineNanos" to dueMs * MS,
        "mExpectedPresentTimeNanos" to shownMs * MS,
        "mExpectedPresentationTimeNanos" to shownMs * MS,
        "mInCallback" to inCallback,
    )
    val timelines = arrayOf(timeline(4710, 110, 120), timeline(4711, 116, 132))
    return made(
        "mFrameTimeNanos" to 100 * MS,
        "mFrameTimelines" to timelines,
        "mPreferredFrameTimeline" to timelines[1],
        "mPreferredFrameTimelineIndex" to 1,
        "mInCallback" to inCallback,
    )
}

/** Since API 34 the platform's objects throw outside the callback. */
private val hasCallback = Choreographer.FrameData::class.java.declaredFields.any { it.name == "mInCallback" }

/** A deadline before the frame ends. */
private fun deadlines() {
    val clock = BootTime({ 0 }, { 5 * MS })
    val texts = Texts(33, clock)
    texts.deadline(begun())
    val expected = "vsync vsync=4711 intended_ns=105000000 expected_ns=137000000 mono_ns=100000000 allowed_ns=16000000"
    expect(listOf(expected), texts.all)
    if (hasCallback) texts.deadline(begun(inCallback = false))
    texts.throws = true
    texts.deadline(begun())
    texts.throws = false
    texts.deadline(begun())
    expect(listOf(expected, expected), texts.all)
}
