import dev.tracetee.Native;
import dev.tracetee.NativeSender;
import dev.tracetee.SenderResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * A JVM in which the agent panics in a native: called by Java, called by Java that a native has called, and on the
 * agent's thread, which is attached for one call. The app continues, and the health report says why the agent is off.
 * One process for each place; the library has the feature planted-panics.
 */
final class PanicOnJvm {
    private static final Path PANICS = Path.of(System.getenv("TRACETEE_PANICS"));

    private PanicOnJvm() {}

    public static void main(String[] arguments) throws Exception {
        String place = arguments[0];
        Path directory = Path.of(arguments[1]);
        expect(Native.INSTANCE.load(), Native.INSTANCE.getLoadError());
        switch (place) {
            case "native" -> {
                nothing(Native.start("{}"));
                expect(Native.isRecording(), "it does not record");
                plant();
                planted(Native.stop());
            }
            case "marker" -> {
                nothing(Native.start("{}"));
                plant();
                Native.beginSection("panics");
            }
            case "nested" -> {
                install(directory);
                String said = Native.upload(null, new NativeSender(request -> {
                    plant();
                    planted(Native.stop());
                    // The agent gives this answer no look.
                    return new SenderResponse(200, Map.of(), new byte[0]);
                }));
                planted(said);
            }
            case "agent" -> {
                install(directory);
                // On the agent's thread, which is attached while this runs.
                nothing(Native.watchMain(() -> {
                    plant();
                    planted(Native.stop());
                }));
                for (int i = 0; i < 1000 && !health().contains("planted"); i++) Thread.sleep(10);
            }
            default -> throw new IllegalArgumentException(place);
        }
        after();
        Thread other = new Thread(PanicOnJvm::after);
        other.start();
        other.join();
        System.gc();
        // The thread that was attached has ended by then.
        Thread.sleep(300);
        System.out.println(place + ": unharmed");
    }

    private static void after() {
        expect(health().startsWith("{\"headline\":\"the agent switched itself off"), health());
        planted(health());
        planted(Native.start("{}"));
        planted(Native.trigger("x"));
        expect(!Native.isRecording(), "it still records");
        Native.beginSection("off");
        Native.endSection();
    }

    private static void install(Path directory) throws IOException {
        Path config = directory.resolve("remote.json");
        Files.writeString(config, "{\"schema\":1,\"seq\":1,\"windows\":[{\"id\":\"w\",\"cool_down_s\":0,"
                + "\"opens\":{\"triggers\":{\"any\":[{\"custom\":{\"name\":\"x\"}}]}}}]}");
        nothing(Native.install("{\"directory\":\"" + directory.resolve("agent") + "\",\"config_file\":\"" + config
                + "\",\"upload\":{\"url\":\"https://127.0.0.1:9\",\"transport\":\"app\"}}"));
    }

    private static String health() {
        String health = Native.health();
        return health == null ? "" : health;
    }

    private static void plant() {
        try {
            Path file = PANICS.resolve("jni");
            if (!Files.exists(file)) Files.writeString(file, "0");
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    private static void planted(String said) {
        expect(said != null && said.contains("planted: jni"), said);
    }

    private static void nothing(String error) {
        expect(error == null, error);
    }

    private static void expect(boolean is, String why) {
        if (!is) throw new AssertionError(why);
    }
}
