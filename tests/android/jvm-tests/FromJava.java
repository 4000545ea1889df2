import android.os.Trace;
import dev.tracetee.Markers;
import dev.tracetee.Section;

/** What a Java app does. */
final class FromJava {
    private FromJava() {}

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
