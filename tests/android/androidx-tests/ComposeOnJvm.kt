// Runs Compose's own runtime on a JVM with our tracers: compositions are sections, and a recomposition names the state whose
// write has caused it. `traced`: Compose 1.13 with its runtime-tracing over androidx.tracing 2. `hook`: an older Compose.
@file:JvmName("ComposeOnJvm")
@file:OptIn(DelicateTracingApi::class, InternalComposeTracingApi::class)

import android.os.Looper
import androidx.compose.runtime.AbstractApplier
import androidx.compose.runtime.BroadcastFrameClock
import androidx.compose.runtime.Composable
import androidx.compose.runtime.Composer
import androidx.compose.runtime.Composition
import androidx.compose.runtime.CompositionTracer
import androidx.compose.runtime.InternalComposeTracingApi
import androidx.compose.runtime.MutableState
import androidx.compose.runtime.Recomposer
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.snapshots.Snapshot
import androidx.compose.runtime.tooling.RecompositionTracer
import androidx.tracing.DelicateTracingApi
import androidx.tracing.Tracer
import dev.tracetee.CaptureOptions
import dev.tracetee.ComposeHook
import dev.tracetee.Outcome
import dev.tracetee.Tracetee
import dev.tracetee.androidx.TraceteeTracing
import java.io.File
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield

fun main(arguments: Array<String>) {
    System.load(arguments[1])
    val file = File(arguments[2])
    when (arguments[0]) {
        "traced" -> {
            expect(TraceteeTracing.install())
            val tracer = tracerOfCompose()
            Composer.setTracer(tracer)
            captured(file) { Reasons.of(tracer) }
        }
        "hook" -> {
            val before = Counting()
            Composer.setTracer(before)
            repeat(2) { expect(ComposeHook.attach()) }
            captured(file) { null }
            // The second call has set no second tracer, which would begin each section twice.
            val markers = file.readLines().mapNotNull { Regex("""mark_write: ([BE].*)""").find(it)?.groupValues?.get(1) }
            check(markers.any { "|Feed (" in it } && markers.zipWithNext().none { (a, b) -> a == b && a.startsWith("B") }) { markers }
            check(before.begun == 0) { "the tracer of before got what it did not want" }
            before.isOn = true
            compose()
            check(before.begun > 0 && before.begun == before.ended) { "${before.begun} and ${before.ended}" }
        }
    }
    println(arguments[0])
}

private fun captured(file: File, reasons: () -> AutoCloseable?) {
    compose()
    val options = CaptureOptions.Builder().setCategories(CaptureOptions.Category.APP).setPassOn(CaptureOptions.PassOn.NEVER)
    expect(Tracetee.startCapture(options.build()))
    reasons().use { compose() }
    expect(Tracetee.stopCapture())
    expect(Tracetee.dump(file))
}

private fun expect(outcome: Outcome) = check(outcome.isDone) { "$outcome" }

/** Composes, changes the state, and recomposes. */
private fun compose() = runBlocking {
    val clock = BroadcastFrameClock()
    withContext(clock) {
        val recomposer = Recomposer(coroutineContext)
        coroutineScope {
            val running = launch { recomposer.runRecomposeAndApplyChanges() }
            val composition = Composition(Applier(), recomposer)
            val model = Model()
            composition.setContent { Feed(model) }
            repeat(3) {
                model.refresh()
                Snapshot.sendApplyNotifications()
                repeat(10) { yield() }
                clock.sendFrame(it * 16_000_000L)
                repeat(10) { yield() }
            }
            composition.dispose()
            recomposer.close()
            running.join()
        }
    }
}

class Model {
    val items: MutableState<String> = mutableStateOf("a secret")

    fun refresh() {
        items.value += "!"
    }
}

@Composable
fun Feed(model: Model) {
    Header()
    Item(model)
}

@Composable
fun Header() {
    noted++
}

@Composable
fun Item(model: Model) {
    noted += model.items.value.length
}

private var noted = 0

private class Applier : AbstractApplier<Unit>(Unit) {
    override fun insertTopDown(index: Int, instance: Unit) = Unit
    override fun insertBottomUp(index: Int, instance: Unit) = Unit
    override fun remove(index: Int, count: Int) = Unit
    override fun move(from: Int, to: Int, count: Int) = Unit
    override fun onClear() = Unit
}

/** Returns Compose's own tracer over androidx.tracing 2, which androidx.startup makes in an app. It asks for the main looper. */
private fun tracerOfCompose(): CompositionTracer {
    val unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe").apply { isAccessible = true }.get(null) as sun.misc.Unsafe
    val looper = unsafe.allocateInstance(Looper::class.java)
    unsafe.putObject(looper, unsafe.objectFieldOffset(Looper::class.java.getDeclaredField("mThread")), Thread.currentThread())
    Looper::class.java.getDeclaredField("sMainLooper").apply { isAccessible = true }.set(null, looper)
    val tracer = Class.forName("androidx.compose.runtime.tracing.ComposeTracer").getConstructor().newInstance()
    check(Tracer.global.javaClass.name == "dev.tracetee.androidx.TraceteeTracer")
    return tracer as CompositionTracer
}

/** In a class of its own: an older Compose has no RecompositionTracer. */
private object Reasons {
    fun of(tracer: CompositionTracer): AutoCloseable {
        val handle = RecompositionTracer(tracer as RecompositionTracer.TraceCollector).installTracing(kotlinx.coroutines.Dispatchers.Unconfined)
        return AutoCloseable { handle.cancel() }
    }
}

/** A tracer that the app had before. */
private class Counting : CompositionTracer {
    var isOn = false
    var begun = 0
    var ended = 0

    override fun traceEventStart(key: Int, dirty1: Int, dirty2: Int, info: String) {
        begun++
    }

    override fun traceEventEnd() {
        ended++
    }

    override fun isTraceInProgress() = isOn
}
