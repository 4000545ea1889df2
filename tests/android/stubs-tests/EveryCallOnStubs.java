import static org.objectweb.asm.Opcodes.ACC_PUBLIC;

import java.io.File;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import sun.misc.Unsafe;

/**
 * Calls every function of the public API, as the checked-in dumps list them, in an app's unit test without Robolectric:
 * the framework is stubs (see MakeStubs.java), and there is no libtracetee.so. Nothing may throw.
 *
 * Arguments: `throws` or `defaults`, what the stubs do; the dumps.
 */
public final class EveryCallOnStubs {
    private static final Pattern CLASS = Pattern.compile("^public .*(?:class|interface) (\\S+)(?: : .*)? \\{$");
    private static final Pattern FUNCTION = Pattern.compile("^\\tpublic .*fun (\\S+) (\\(.*)$");
    private static final Map<Class<?>, Object> INSTANCES = new HashMap<>();
    private static final List<String> FAILURES = new ArrayList<>();

    private EveryCallOnStubs() {}

    public static void main(String[] arguments) throws Exception {
        checkStubs(arguments[0].equals("throws"));
        // Coroutines trace: their sections reach the platform.
        Class.forName("dev.tracetee.coroutines.CoroutineTracing").getMethod("setEnabled", boolean.class).invoke(null, true);
        int calls = 0;
        for (int at = 1; at < arguments.length; at++) calls += callAll(Path.of(arguments[at]));
        if (!FAILURES.isEmpty()) throw new AssertionError(FAILURES.size() + " calls failed:\n" + String.join("\n", FAILURES));
        Object why = Class.forName("dev.tracetee.Tracetee").getMethod("startCapture").invoke(null);
        System.out.println("stubs, " + arguments[0] + ": " + calls + " calls, none throws; a capture: " + why);
    }

    /** The stubs are what they are taken for. */
    private static void checkStubs(boolean throwing) throws Exception {
        Method warn = Class.forName("android.util.Log").getMethod("w", String.class, String.class);
        try {
            Object result = warn.invoke(null, "tag", "text");
            if (throwing || !result.equals(0)) throw new AssertionError("Log.w returns " + result);
        } catch (InvocationTargetException error) {
            if (!throwing || !error.getCause().getMessage().contains("not mocked")) throw error;
        }
    }

    private static int callAll(Path dump) throws Exception {
        Class<?> type = null;
        int calls = 0;
        for (String line : Files.readAllLines(dump)) {
            Matcher found = CLASS.matcher(line);
            if (found.matches()) type = Class.forName(found.group(1).replace('/', '.'));
            found = FUNCTION.matcher(line);
            if (!found.matches() || type.isInterface() || line.contains(" synthetic ")) continue;
            call(type, executable(type, found.group(1), found.group(2)));
            calls++;
        }
        if (calls == 0) throw new AssertionError(dump + " lists no function");
        return calls;
    }

    private static Executable executable(Class<?> type, String name, String descriptor) {
        List<Executable> all = new ArrayList<>(List.of(type.getDeclaredConstructors()));
        all.addAll(List.of(type.getDeclaredMethods()));
        for (Executable each : all) {
            boolean isMethod = each instanceof Method;
            String its = isMethod ? Type.getMethodDescriptor((Method) each) : Type.getConstructorDescriptor((Constructor<?>) each);
            if (its.equals(descriptor) && (isMethod ? each.getName() : "<init>").equals(name)) return each;
        }
        throw new AssertionError(type + " has no " + name + descriptor);
    }

    private static void call(Class<?> type, Executable executable) throws Exception {
        executable.setAccessible(true);
        Object[] values = values(executable);
        try {
            if (executable instanceof Constructor<?> constructor) {
                constructor.newInstance(values);
            } else {
                ((Method) executable).invoke(Modifier.isStatic(executable.getModifiers()) ? null : instance(type), values);
            }
        } catch (InvocationTargetException error) {
            Throwable cause = error.getCause();
            // A sender and a request's body fail by that, as documented: there is no such server and no such file.
            if (cause instanceof IOException) return;
            FAILURES.add(executable + ": " + cause + " at " + cause.getStackTrace()[0]);
        }
    }

    private static Object[] values(Executable executable) throws Exception {
        Class<?>[] types = executable.getParameterTypes();
        Object[] values = new Object[types.length];
        for (int at = 0; at < types.length; at++) values[at] = value(types[at]);
        // Strict mode makes misuse throw, as documented.
        if (executable.getName().equals("setStrict")) values[0] = false;
        // An enum has no constant of another name.
        Class<?> type = executable.getDeclaringClass();
        if (type.isEnum() && executable.getName().equals("valueOf")) values[0] = ((Enum<?>) type.getEnumConstants()[0]).name();
        return values;
    }

    private static Object value(Class<?> type) throws Exception {
        if (type == boolean.class || type == Boolean.class) return true;
        if (type == int.class || type == Integer.class) return 1;
        if (type == long.class || type == Long.class) return 1L;
        if (type == double.class || type == Double.class) return 0.5;
        if (type == String.class) return "x";
        if (type == byte[].class) return new byte[1];
        if (type == String[].class) return new String[] {"x", "y"};
        if (type == File.class) return new File("/nonexistent/x");
        if (type == Throwable.class) return new Exception("x");
        if (type == Map.class) return Map.of();
        if (type == List.class || type == Collection.class) return List.of();
        if (type.isArray()) return Array.newInstance(type.getComponentType(), 0);
        if (type == Object.class) return null;
        return instance(type);
    }

    private static Object instance(Class<?> type) throws Exception {
        Object known = INSTANCES.get(type);
        if (known == null) INSTANCES.put(type, known = make(type));
        return known;
    }

    private static Object make(Class<?> type) throws Exception {
        if (type.getName().equals("dev.tracetee.coroutines.TraceSink")) {
            // The platform's: a stand-in would keep all later sections from it.
            return Class.forName("dev.tracetee.coroutines.CoroutineTracing").getMethod("getSink").invoke(object("dev.tracetee.coroutines.CoroutineTracing"));
        }
        if (type.isEnum()) return type.getEnumConstants()[0];
        if (type.isInterface()) return stand(type);
        for (var field : type.getDeclaredFields()) {
            if (field.getName().equals("INSTANCE")) return field.get(null);
        }
        if (Modifier.isAbstract(type.getModifiers()) && type.getName().startsWith("dev.tracetee.")) {
            // A sealed class: one of its own.
            for (Class<?> nested : type.getDeclaredClasses()) {
                if (type.isAssignableFrom(nested)) return instance(nested);
            }
        }
        if (type.getName().startsWith("dev.tracetee.")) {
            Constructor<?> first = type.getDeclaredConstructors()[0];
            first.setAccessible(true);
            return first.newInstance(values(first));
        }
        return mock(type);
    }

    private static Object object(String name) throws Exception {
        return instance(Class.forName(name));
    }

    /** An implementation of an interface: a context is empty, a function gives a text, all else null. */
    private static Object stand(Class<?> type) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, values) -> {
            if (method.getReturnType().getName().equals("kotlin.coroutines.CoroutineContext")) return object("kotlin.coroutines.EmptyCoroutineContext");
            if (method.getName().equals("invoke")) return "x";
            if (method.getName().equals("hashCode")) return 1;
            if (method.getName().equals("equals")) return self == values[0];
            return null;
        });
    }

    /** An object of a framework's class, as libraries for mocks make it: without its constructor, and not abstract. */
    private static Object mock(Class<?> type) throws Exception {
        var unsafe = Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        Class<?> concrete = Modifier.isAbstract(type.getModifiers()) ? subclass(type) : type;
        return ((Unsafe) unsafe.get(null)).allocateInstance(concrete);
    }

    private static Class<?> subclass(Class<?> type) throws IllegalAccessException {
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        String name = "Mock" + type.getSimpleName();
        writer.visit(Opcodes.V11, ACC_PUBLIC, name, null, Type.getInternalName(type), null);
        for (Method method : type.getMethods()) {
            if (!Modifier.isAbstract(method.getModifiers())) continue;
            var body = writer.visitMethod(ACC_PUBLIC, method.getName(), Type.getMethodDescriptor(method), null, null);
            Type result = Type.getReturnType(method);
            switch (result.getSort()) {
                case Type.VOID -> {}
                case Type.LONG -> body.visitInsn(Opcodes.LCONST_0);
                case Type.FLOAT -> body.visitInsn(Opcodes.FCONST_0);
                case Type.DOUBLE -> body.visitInsn(Opcodes.DCONST_0);
                case Type.OBJECT, Type.ARRAY -> body.visitInsn(Opcodes.ACONST_NULL);
                default -> body.visitInsn(Opcodes.ICONST_0);
            }
            body.visitInsn(result.getOpcode(Opcodes.IRETURN));
            body.visitMaxs(0, 0);
        }
        return MethodHandles.lookup().defineClass(writer.toByteArray());
    }
}
