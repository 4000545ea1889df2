import java.nio.file.Files;
import java.nio.file.Path;
import org.jetbrains.dokka.DokkaBootstrapImpl;

/** Runs Dokka with the configuration in a JSON file: Dokka's command line is not in Maven's repositories. */
final class Document {
    private Document() {}

    public static void main(String[] arguments) {
        try {
            DokkaBootstrapImpl dokka = new DokkaBootstrapImpl();
            dokka.configure(Files.readString(Path.of(arguments[0])), Document::log);
            dokka.generate();
            // Dokka's analysis leaves threads that keep the process alive.
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void log(String level, String message) {
        if (level.equals("warn") || level.equals("error")) System.err.println("dokka: " + message);
    }
}
