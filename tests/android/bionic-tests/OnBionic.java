import com.github.unidbg.AndroidEmulator;
import com.github.unidbg.Module;
import com.github.unidbg.arm.backend.Unicorn2Factory;
import com.github.unidbg.linux.android.AndroidEmulatorBuilder;
import com.github.unidbg.linux.android.AndroidResolver;
import com.github.unidbg.linux.android.dvm.DalvikModule;
import com.github.unidbg.linux.android.dvm.VM;
import com.github.unidbg.memory.MemoryBlock;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * The libraries for ARM on Android 6's own libc, in unidbg's emulator of the processor: they are linked (every
 * symbol is found), their natives are registered, and code of the standard library's, of serde's and ours runs.
 * No capture: the emulator's kernel is a stand-in, which has no PR_GET_TSC, no membarrier, and no threads.
 */
public final class OnBionic {
    private OnBionic() {}

    public static void main(String[] arguments) throws Exception {
        run(AndroidEmulatorBuilder.for64Bit(), arguments[0]);
        run(AndroidEmulatorBuilder.for32Bit(), arguments[1]);
    }

    private static void run(com.github.unidbg.EmulatorBuilder<AndroidEmulator> builder, String library) throws Exception {
        PrintStream console = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        try (AndroidEmulator emulator = builder.setProcessName("com.example").addBackendFactory(new Unicorn2Factory(true)).build()) {
            emulator.getMemory().setLibraryResolver(new AndroidResolver(23));
            VM vm = emulator.createDalvikVM();
            vm.setVerbose(true);
            System.setOut(new PrintStream(said));
            DalvikModule loaded = vm.loadLibrary(new File(library), true);
            loaded.callJNI_OnLoad(emulator);
            System.setOut(console);
            String registered = said.toString(StandardCharsets.UTF_8);
            expect(registered, "RegisterNatives(dev/tracetee/Native, ");
            expect(registered, "RegisterNative(dev/tracetee/Native, upload(Ljava/lang/String;Ldev/tracetee/Sender;)Ljava/lang/String;");
            Module agent = loaded.getModule();
            check(emulator, agent, "{\"tags\": [\"view\", \"app\"], \"recorder\": {\"mode\": \"ring\", \"capacity_kb\": 4096}}", 0, "");
            check(emulator, agent, "{\"tags\": [\"nonsense\"]}", -1, "configuration: tags: unknown category \"nonsense\"");
            check(emulator, agent, "{\"recorder\": {\"capacity_kb\": 1}}", -1, "recorder.capacity_kb: 1 is not from 16");
            check(emulator, agent, "no json", -1, "expected ident at line 1 column 2");
            // Nothing records: these are a load and a branch.
            agent.callFunction(emulator, "tracetee_begin_section", "on bionic");
            agent.callFunction(emulator, "tracetee_end_section");
            int stopped = agent.callFunction(emulator, "tracetee_stop").intValue();
            if (stopped != -2) throw new AssertionError("stop without a capture: " + stopped);
            System.out.println(library + ": " + (emulator.is64Bit() ? "64" : "32") + " bits, on Android 6's libc");
        } finally {
            System.setOut(console);
        }
    }

    private static void check(AndroidEmulator emulator, Module agent, String config, int expected, String text) {
        int result = agent.callFunction(emulator, "tracetee_check_config", config).intValue();
        if (result != expected) throw new AssertionError(config + ": " + result);
        MemoryBlock buffer = emulator.getMemory().malloc(512, false);
        if (emulator.is64Bit()) {
            agent.callFunction(emulator, "tracetee_last_error", buffer.getPointer(), 512L);
        } else {
            agent.callFunction(emulator, "tracetee_last_error", buffer.getPointer(), 512);
        }
        expect(buffer.getPointer().getString(0), text);
    }

    private static void expect(String said, String text) {
        if (!said.contains(text)) throw new AssertionError("not there: " + text + "; but: " + said);
    }
}
