import java.util.TreeSet;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.Collections;

/**
 * Links and initialises each class of a jar, and prints what the JVM says against it. Run with -Xverify:all
 * on a jar and on what it was rewritten to, it has to print the same: libraries do have classes that lack what
 * they can do without.
 */
public final class VerifyAll {
    public static void main(String[] arguments) throws Exception {
        TreeSet<String> said = new TreeSet<>();
        int classes = 0;
        try (ZipFile zip = new ZipFile(arguments[0])) {
            for (ZipEntry entry : Collections.list(zip.entries())) {
                String name = entry.getName();
                if (!name.endsWith(".class") || name.startsWith("META-INF/") || name.endsWith("module-info.class")) continue;
                classes++;
                String type = name.substring(0, name.length() - 6).replace('/', '.');
                try {
                    Class.forName(type, true, VerifyAll.class.getClassLoader());
                } catch (VerifyError | ClassFormatError error) {
                    said.add(type + ": REFUSED " + error);
                } catch (Throwable error) {
                    Throwable cause = error.getCause() == null ? error : error.getCause();
                    said.add(type + ": " + cause.getClass().getName());
                }
            }
        }
        for (String line : said) System.out.println(line);
        System.out.println(classes + " classes");
        System.exit(0);
    }
}
