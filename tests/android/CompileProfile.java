import com.android.tools.profgen.ArtProfile;
import com.android.tools.profgen.ArtProfileKt;
import com.android.tools.profgen.ArtProfileSerializer;
import com.android.tools.profgen.DexFile;
import com.android.tools.profgen.DexFileData;
import com.android.tools.profgen.DexFileParserKt;
import com.android.tools.profgen.HumanReadableProfile;
import com.android.tools.profgen.HumanReadableProfileKt;
import com.android.tools.profgen.ObfuscationMap;
import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Compiles the rules of a baseline profile against dex code, with the profgen of the Android Gradle plugin, as an app's build
 * does. Fails for a rule that profgen does not understand, and for one that matches nothing.
 *
 * <pre>CompileProfile RULES DEX OUT</pre>
 */
final class CompileProfile {
    private CompileProfile() {}

    public static void main(String[] arguments) throws Exception {
        Path rules = Path.of(arguments[0]);
        List<DexFile> dex = DexFileParserKt.parseDexFiles(Files.readAllBytes(Path.of(arguments[1])), 0);
        int failures = 0;
        for (String rule : Files.readAllLines(rules)) {
            if (rule.isBlank() || rule.startsWith("#")) continue;
            File alone = File.createTempFile("rule", ".txt");
            Files.writeString(alone.toPath(), rule + "\n");
            ArtProfile profile = compiled(alone, dex);
            if (profile == null || matches(profile) == 0) {
                System.err.println("matches nothing: " + rule);
                failures++;
            }
            Files.delete(alone.toPath());
        }
        ArtProfile profile = compiled(rules.toFile(), dex);
        if (failures > 0 || profile == null) System.exit(1);
        try (OutputStream out = new FileOutputStream(arguments[2])) {
            profile.save(out, ArtProfileSerializer.V0_1_0_P);
        }
        int methods = profile.getProfileData().values().stream().mapToInt(data -> data.getMethods().size()).sum();
        System.out.println(methods + " methods, " + Files.size(Path.of(arguments[2])) + " bytes as a profile of ART");
    }

    private static ArtProfile compiled(File rules, List<DexFile> dex) {
        HumanReadableProfile read = HumanReadableProfileKt.HumanReadableProfile(rules, System.err::println);
        return read == null ? null : ArtProfileKt.ArtProfile(read, ObfuscationMap.Companion.getEmpty(), dex, "");
    }

    private static int matches(ArtProfile profile) {
        int count = 0;
        for (DexFileData data : profile.getProfileData().values()) {
            count += data.getMethods().size() + data.getClassIndexes().size() + data.getTypeIndexes().size();
        }
        return count;
    }
}
