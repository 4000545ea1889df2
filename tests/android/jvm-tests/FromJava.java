import android.os.Trace;
import dev.tracetee.CaptureOptions;
import dev.tracetee.HealthReport;
import dev.tracetee.Markers;
import dev.tracetee.Outcome;
import dev.tracetee.RedactionRule;
import dev.tracetee.Section;
import dev.tracetee.SenderResponse;
import dev.tracetee.Tracetee;
import dev.tracetee.TraceteeConfig;
import dev.tracetee.UploadResult;
import java.util.Arrays;
import java.util.Collections;

/** Uses the library as an app in Java 8 does. */
final class FromJava {
    private FromJava() {}

    static TraceteeConfig config() {
        return new TraceteeConfig.Builder()
                .setCollectorUrl("https://traces.example.com")
                .setDevice(Collections.singletonMap("soc", "x"))
                .setSender(request -> new SenderResponse(200, Collections.singletonMap("Url", Collections.singletonList(request.getUrl())), new byte[0]))
                .setScheduleUploads(false)
                .build();
    }

    static CaptureOptions options() {
        return new CaptureOptions.Builder()
                .setCategories(CaptureOptions.Category.APP, CaptureOptions.Category.VIEW)
                .setMode(CaptureOptions.Mode.RING)
                .setCapacityKb(4096L)
                .setRedaction(Arrays.asList(
                        new RedactionRule("[0-9]{6}", RedactionRule.Action.Hash.INSTANCE),
                        new RedactionRule("user-.*", new RedactionRule.Action.Replace("<user>"), "user-guide")))
                .build();
    }

    /** Tells what an upload has come to. */
    static String told(UploadResult result) {
        if (result instanceof UploadResult.Done) {
            UploadResult.Done done = (UploadResult.Done) result;
            return done.getDelivered().size() + " delivered, " + done.getWaiting() + " wait: " + done.getHeld();
        }
        return ((UploadResult.Failed) result).getReason();
    }

    /** Tells what a call has come to. */
    static String told(Outcome outcome) {
        return outcome == Outcome.DONE && outcome.isDone() ? "done" : outcome.getError();
    }

    static boolean isRecording() {
        HealthReport health = Tracetee.health();
        return health != null && health.isRecording();
    }

    static void work(int rounds) {
        for (int i = 0; i < rounds; i++) {
            Trace.beginSection("java " + i);
            try (Section section = Section.begin("inner|with\nall")) {
                Markers.counter("java counter", i);
            }
            Trace.endSection();
        }
    }
}
