import android.os.Trace;
import dev.tracetee.Markers;
import dev.tracetee.Section;
import dev.tracetee.SenderResponse;
import dev.tracetee.TraceteeConfig;
import java.util.List;
import java.util.Map;

/** Uses the library as a Java app does. */
final class FromJava {
    private FromJava() {}

    static TraceteeConfig config() {
        return new TraceteeConfig.Builder()
                .setCollectorUrl("https://traces.example.com")
                .setDevice(Map.of("soc", "x"))
                .setSender(request -> new SenderResponse(200, Map.of("Url", List.of(request.getUrl())), new byte[0]))
                .setScheduleUploads(false)
                .build();
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
