package dev.tracetee.bench;

import dev.tracetee.CaptureOptions;
import dev.tracetee.Outcome;
import dev.tracetee.Tracetee;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.CompilerControl;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** Measures the cost of a section: a method without one, one that the instrumenter rewrote, one with a section by hand. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class Calls {
    @Param({"off", "recording"})
    public String capture;

    private int x = 42;

    @Setup
    public void start() {
        System.load(System.getProperty("natives"));
        CaptureOptions options = new CaptureOptions.Builder()
                .setCategories(CaptureOptions.Category.APP)
                .setPassOn(CaptureOptions.PassOn.NEVER)
                .setMode(CaptureOptions.Mode.RING)
                .setCapacityKb(4096L)
                .build();
        if (!capture.equals("recording")) return;
        Outcome started = Tracetee.startCapture(options);
        if (!started.isDone()) throw new IllegalStateException(started.getError());
    }

    @TearDown
    public void stop() {
        if (capture.equals("recording")) Tracetee.stopCapture();
    }

    @Benchmark
    public int asItIs() {
        return subject.plain.Work.step(x);
    }

    @Benchmark
    public int instrumented() {
        return subject.traced.Work.step(x);
    }

    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE)
    public int byHand() {
        android.os.Trace.beginSection("step");
        try {
            return subject.plain.Work.step(x);
        } finally {
            android.os.Trace.endSection();
        }
    }
}
