import com.github.unidbg.AndroidEmulator;
import com.github.unidbg.Emulator;
import com.github.unidbg.Module;
import com.github.unidbg.arm.ArmSvc;
import com.github.unidbg.arm.backend.BackendFactory;
import com.github.unidbg.arm.backend.Unicorn2Factory;
import com.github.unidbg.file.linux.AndroidFileIO;
import com.github.unidbg.linux.ARM32SyscallHandler;
import com.github.unidbg.linux.ARM64SyscallHandler;
import com.github.unidbg.linux.LinuxModule;
import com.github.unidbg.linux.android.AndroidARM64Emulator;
import com.github.unidbg.linux.android.AndroidARMEmulator;
import com.github.unidbg.linux.android.AndroidResolver;
import com.github.unidbg.linux.android.dvm.DalvikModule;
import com.github.unidbg.linux.android.dvm.VM;
import com.github.unidbg.memory.Memory;
import com.github.unidbg.memory.MemoryBlock;
import com.github.unidbg.memory.SvcMemory;
import com.github.unidbg.unix.UnixSyscallHandler;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import net.fornwall.jelf.ElfRelocation;
import net.fornwall.jelf.ElfSegment;
import net.fornwall.jelf.ElfSymbol;
import net.fornwall.jelf.MemoizedObject;
import unicorn.Arm64Const;
import unicorn.ArmConst;

/**
 * Runs the libraries for ARM, as they were built, on Android 6's own libc, in unidbg's emulator of the processor.
 * Every symbol that a library needs must be in one of the system's (unidbg's loader leaves out what is missing,
 * so this looks); then its natives are registered, configurations are checked, and the self test leaves a guard,
 * locks a file, compresses a trace and decodes it.
 *
 * Kernel and dynamic linker are stand-ins: files are those of the host; flock and dl_unwind_find_exidx are below.
 * There is no PR_GET_TSC, no membarrier and no thread, so nothing is captured. Called by tests/android/run bionic.
 */
public final class OnBionic {
    private static final List<BackendFactory> PROCESSOR = List.of(new Unicorn2Factory(true));
    private static final String APP = "/data/data/com.example";

    private OnBionic() {}

    public static void main(String[] arguments) throws Exception {
        Path root = Files.createTempDirectory("on-bionic");
        File files = root.resolve(APP.substring(1)).toFile();
        if (!files.mkdirs()) throw new AssertionError(files);
        try {
            try (AndroidEmulator emulator = new Arm64(root.toFile())) {
                run(emulator, arguments[0]);
            }
            try (AndroidEmulator emulator = new Arm(root.toFile())) {
                run(emulator, arguments[1]);
            }
            String[] left = files.list();
            if (left == null || left.length != 0) throw new AssertionError("left behind: " + String.join(", ", left));
        } finally {
            try (var paths = Files.walk(root)) {
                paths.sorted((one, other) -> other.compareTo(one)).map(Path::toFile).forEach(File::delete);
            }
        }
    }

    private static void run(AndroidEmulator emulator, String library) throws Exception {
        PrintStream console = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        try {
            emulator.getMemory().setLibraryResolver(new AndroidResolver(23));
            VM vm = emulator.createDalvikVM();
            vm.setVerbose(true);
            System.setOut(new PrintStream(said));
            DalvikModule loaded = vm.loadLibrary(new File(library), true);
            int symbols = everySymbolIsFound(emulator, (LinuxModule) loaded.getModule());
            loaded.callJNI_OnLoad(emulator);
            System.setOut(console);
            String registered = said.toString(StandardCharsets.UTF_8);
            expect(registered, "RegisterNatives(dev/tracetee/Native, ");
            expect(registered, "RegisterNative(dev/tracetee/Native, upload(Ljava/lang/String;Ldev/tracetee/NativeSender;)Ljava/lang/String;");
            Module agent = loaded.getModule();
            check(emulator, agent, "{\"tags\": [\"view\", \"app\"], \"recorder\": {\"mode\": \"ring\", \"capacity_kb\": 4096}}", 0, "");
            check(emulator, agent, "{\"tags\": [\"nonsense\"]}", -1, "configuration: tags: unknown category \"nonsense\"");
            check(emulator, agent, "{\"recorder\": {\"capacity_kb\": 1}}", -1, "recorder.capacity_kb: 1 is not from 16");
            check(emulator, agent, "no json", -1, "configuration: expected a value (line 1, column 1)");
            int tested = agent.callFunction(emulator, "tracetee_self_test", APP).intValue();
            if (tested != 0) throw new AssertionError("self test: " + tested + ": " + lastError(emulator, agent));
            // The self test can say no.
            Locks.everybody = true;
            tested = agent.callFunction(emulator, "tracetee_self_test", APP).intValue();
            Locks.everybody = false;
            if (tested != -4) throw new AssertionError("self test on a kernel that grants every lock: " + tested);
            expect(lastError(emulator, agent), ".lock: it was refused, or granted twice");
            // Nothing records: these are a load and a branch.
            agent.callFunction(emulator, "tracetee_begin_section", "on bionic");
            agent.callFunction(emulator, "tracetee_end_section");
            int stopped = agent.callFunction(emulator, "tracetee_stop").intValue();
            if (stopped != -2) throw new AssertionError("stop without a capture: " + stopped);
            System.out.println(library + ": " + (emulator.is64Bit() ? "64" : "32") + " bits, on Android 6's libc: "
                    + symbols + " symbols found, natives registered, self test passed");
        } finally {
            System.setOut(console);
        }
    }

    /** Counts the symbols that the library takes from others; fails with those that no loaded library exports. */
    private static int everySymbolIsFound(AndroidEmulator emulator, LinuxModule library) throws IOException {
        List<Module> others = new ArrayList<>(emulator.getMemory().getLoadedModules());
        others.remove(library);
        TreeSet<String> needed = new TreeSet<>();
        TreeSet<String> missing = new TreeSet<>();
        for (MemoizedObject<ElfRelocation> relocation : library.dynamicStructure.getRelocations()) {
            ElfSymbol symbol = relocation.getValue().sym() == 0 ? null : relocation.getValue().symbol();
            if (symbol == null || !symbol.isUndef() || symbol.getBinding() == ElfSymbol.BINDING_WEAK) continue;
            String name = symbol.getName();
            needed.add(name);
            if (others.stream().noneMatch(other -> other.findSymbolByName(name, false) != null)) missing.add(name);
        }
        if (!missing.isEmpty()) throw new AssertionError(library.name + " needs what Android 6 lacks: " + missing);
        if (!needed.contains("__cxa_finalize")) throw new AssertionError("no crtbegin_so: " + needed);
        return needed.size();
    }

    private static void check(AndroidEmulator emulator, Module agent, String config, int expected, String text) {
        int result = agent.callFunction(emulator, "tracetee_check_config", config).intValue();
        if (result != expected) throw new AssertionError(config + ": " + result);
        expect(lastError(emulator, agent), text);
    }

    private static String lastError(AndroidEmulator emulator, Module agent) {
        MemoryBlock buffer = emulator.getMemory().malloc(512, false);
        if (emulator.is64Bit()) {
            agent.callFunction(emulator, "tracetee_last_error", buffer.getPointer(), 512L);
        } else {
            agent.callFunction(emulator, "tracetee_last_error", buffer.getPointer(), 512);
        }
        return buffer.getPointer().getString(0);
    }

    private static void expect(String said, String text) {
        if (!said.contains(text)) throw new AssertionError("not there: " + text + "; but: " + said);
    }

    /** Stands in for the kernel's flock, which unidbg lets everybody have: one open file at a time locks a path. */
    private static final class Locks {
        private static final int LOCK_EX = 2;
        private static final int LOCK_UN = 8;
        private static final int EBADF = 9;
        private static final int EAGAIN = 11;
        /** As unidbg's own. */
        static boolean everybody;
        private final Map<String, AndroidFileIO> held = new HashMap<>();

        /** Gives what the system call returns; a file that is no longer open holds nothing. */
        int flock(Emulator<?> emulator, Map<Integer, AndroidFileIO> open) {
            if (everybody) return 0;
            held.values().retainAll(open.values());
            AndroidFileIO file = open.get(emulator.getContext().getIntArg(0));
            int operation = emulator.getContext().getIntArg(1);
            if (file == null) return -EBADF;
            if ((operation & LOCK_UN) != 0) {
                held.remove(file.getPath(), file);
                return 0;
            }
            if ((operation & LOCK_EX) == 0) throw new AssertionError("flock: " + operation);
            AndroidFileIO holder = held.putIfAbsent(file.getPath(), file);
            return holder == null || holder == file ? 0 : -EAGAIN;
        }
    }

    /** Stands in for bionic's dl_unwind_find_exidx, as that of unidbg finds nothing: where a module's index lies. */
    private static final class FindExidx extends ArmSvc {
        private static final int ENTRY_BYTES = 8;

        @Override
        public long handle(Emulator<?> emulator) {
            long pc = emulator.getContext().getPointerArg(0).peer;
            LinuxModule module = (LinuxModule) emulator.getMemory().findModuleByAddress(pc);
            try {
                for (int number = 0; module != null && number < module.elfFile.num_ph; number++) {
                    ElfSegment segment = module.elfFile.getProgramHeader(number);
                    if (segment.type != ElfSegment.PT_ARM_EXIDX) continue;
                    emulator.getContext().getPointerArg(1).setInt(0, (int) (segment.mem_size / ENTRY_BYTES));
                    return module.base + segment.virtual_address;
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            return 0;
        }
    }

    private static final class Arm64 extends AndroidARM64Emulator {
        Arm64(File root) {
            super("com.example", root, PROCESSOR);
        }

        @Override
        protected UnixSyscallHandler<AndroidFileIO> createSyscallHandler(SvcMemory memory) {
            return new ARM64SyscallHandler(memory) {
                private final Locks locks = new Locks();

                @Override
                protected boolean handleSyscall(Emulator<?> emulator, int number) {
                    if (number != 32) return false;
                    emulator.getBackend().reg_write(Arm64Const.UC_ARM64_REG_X0, (long) locks.flock(emulator, fdMap));
                    return true;
                }
            };
        }
    }

    private static final class Arm extends AndroidARMEmulator {
        Arm(File root) {
            super("com.example", root, PROCESSOR);
        }

        @Override
        protected Memory createMemory(UnixSyscallHandler<AndroidFileIO> kernel, String[] environment) {
            Memory memory = super.createMemory(kernel, environment);
            memory.addHookListener((svc, library, symbol, old) ->
                    library.equals("libdl.so") && symbol.equals("dl_unwind_find_exidx") ? svc.registerSvc(new FindExidx()).peer : 0);
            return memory;
        }

        @Override
        protected UnixSyscallHandler<AndroidFileIO> createSyscallHandler(SvcMemory memory) {
            return new ARM32SyscallHandler(memory) {
                private final Locks locks = new Locks();

                @Override
                protected boolean handleSyscall(Emulator<?> emulator, int number) {
                    if (number != 143) return false;
                    emulator.getBackend().reg_write(ArmConst.UC_ARM_REG_R0, locks.flock(emulator, fdMap));
                    return true;
                }
            };
        }
    }
}
