import com.android.builder.testing.MockableJarGenerator;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.jar.JarFile;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * Makes the two jars that the Android Gradle plugin puts on the class path of an app's unit tests in place of the
 * framework, with the plugin's own generator: one whose methods throw, and one whose methods return null and 0
 * (`testOptions.unitTests.isReturnDefaultValues`). Arguments: AOSP's framework, and the directory of the results.
 */
public final class MakeStubs {
    private MakeStubs() {}

    public static void main(String[] arguments) throws IOException {
        File directory = new File(arguments[1]);
        File api = new File(directory, "api.jar");
        extract(new File(arguments[0]), api);
        for (boolean returnsDefaults : new boolean[] {false, true}) {
            File stubs = new File(directory, returnsDefaults ? "defaults.jar" : "throws.jar");
            Files.deleteIfExists(stubs.toPath());
            new MockableJarGenerator(returnsDefaults).createMockableJar(api, stubs);
        }
        Files.delete(api.toPath());
    }

    /** Makes what android.jar of an SDK is, which the generator reads: the framework without its implementation. */
    private static void extract(File framework, File api) throws IOException {
        try (JarFile from = new JarFile(framework); ZipOutputStream to = new ZipOutputStream(Files.newOutputStream(api.toPath()))) {
            to.setLevel(1);
            for (var entries = from.entries(); entries.hasMoreElements();) {
                ZipEntry entry = entries.nextElement();
                String name = entry.getName();
                if (!name.endsWith(".class") || !(name.startsWith("android/") || name.startsWith("org/json/"))) continue;
                to.putNextEntry(new ZipEntry(name));
                try (var content = from.getInputStream(entry)) {
                    to.write(withoutBodies(content.readAllBytes()));
                }
            }
        }
    }

    private static byte[] withoutBodies(byte[] code) {
        ClassNode type = new ClassNode();
        new ClassReader(code).accept(type, ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
        boolean isEnum = (type.access & Opcodes.ACC_ENUM) != 0;
        if (!isEnum) type.methods.removeIf(method -> method.name.equals("<clinit>"));
        for (MethodNode method : type.methods) {
            method.tryCatchBlocks.clear();
            // The constants of an enum are made by its own code.
            if (isEnum || method.instructions.size() == 0) continue;
            InsnList body = new InsnList();
            if (method.name.equals("<init>")) callOther(type, method, body);
            body.add(new InsnNode(Opcodes.ACONST_NULL));
            body.add(new InsnNode(Opcodes.ATHROW));
            method.instructions = body;
        }
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        type.accept(writer);
        return writer.toByteArray();
    }

    /** Calls the other constructor that a constructor begins with, with null and 0. */
    private static void callOther(ClassNode type, MethodNode method, InsnList body) {
        int pending = 0;
        for (AbstractInsnNode each : method.instructions) {
            if (each.getOpcode() == Opcodes.NEW) pending++;
            if (!(each instanceof MethodInsnNode call) || !call.name.equals("<init>")) continue;
            if (pending-- > 0) continue;
            body.add(new VarInsnNode(Opcodes.ALOAD, 0));
            for (Type argument : Type.getArgumentTypes(call.desc)) {
                body.add(new InsnNode(switch (argument.getSort()) {
                    case Type.LONG -> Opcodes.LCONST_0;
                    case Type.FLOAT -> Opcodes.FCONST_0;
                    case Type.DOUBLE -> Opcodes.DCONST_0;
                    case Type.OBJECT, Type.ARRAY -> Opcodes.ACONST_NULL;
                    default -> Opcodes.ICONST_0;
                }));
            }
            body.add(new MethodInsnNode(Opcodes.INVOKESPECIAL, call.owner, "<init>", call.desc, false));
            return;
        }
        throw new AssertionError(type.name + " has a constructor without another one");
    }
}
