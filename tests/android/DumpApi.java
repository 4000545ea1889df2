import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.jetbrains.kotlin.abi.tools.AbiFilters;
import org.jetbrains.kotlin.abi.tools.AbiTools;

/** Prints the public API of the Kotlin classes in a directory. Called by tests/android/api. */
final class DumpApi {
    private DumpApi() {}

    public static void main(String[] arguments) throws Exception {
        List<File> classes;
        try (var files = Files.walk(Path.of(arguments[0]))) {
            classes = files.filter(file -> file.toString().endsWith(".class")).sorted().map(Path::toFile).toList();
        }
        if (classes.isEmpty()) throw new IllegalArgumentException("no classes in " + arguments[0]);
        AbiFilters all = new AbiFilters(Set.of(), Set.of(), Set.of(), Set.of());
        AbiTools tools = AbiTools.Companion.getInstance(DumpApi.class.getClassLoader());
        StringBuilder dump = new StringBuilder();
        tools.printJvmDump(dump, classes, all);
        System.out.print(dump);
    }
}
