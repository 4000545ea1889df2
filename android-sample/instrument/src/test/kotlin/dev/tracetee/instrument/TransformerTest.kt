package dev.tracetee.instrument

import java.lang.reflect.InvocationTargetException
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test
import org.objectweb.asm.ClassReader
import org.objectweb.asm.ClassWriter
import org.objectweb.asm.Label
import org.objectweb.asm.MethodVisitor
import org.objectweb.asm.Opcodes

/** Rewritten classes pass the JVM's verifier, behave as before, and write the expected sections. */
class TransformerTest {
    @BeforeEach
    fun forget() {
        Recorder.take()
    }

    /** Loads the rewritten classes. */
    private class Loader(parent: ClassLoader, val classes: Map<String, ByteArray>) : ClassLoader(parent) {
        override fun loadClass(name: String, resolve: Boolean): Class<*> = synchronized(getClassLoadingLock(name)) {
            if (name !in classes && !name.startsWith("com.example.")) return super.loadClass(name, resolve)
            val bytes = classes[name] ?: getResourceAsStream(name.replace('.', '/') + ".class")!!.use { it.readBytes() }
            findLoadedClass(name) ?: defineClass(name, bytes, 0, bytes.size)
        }
    }

    private val methods = HashMap<String, String>()

    /** Rewrites classes; an id stands for a method's name. */
    private fun rewritten(vararg files: Pair<String, ByteArray>, rules: Rules = Rules()): Loader {
        // An id is a method's name and nothing else, so that sequences can be read.
        val transformer = Transformer(rules, CountedIds(), Recorder.TARGET)
        val classes = files.associate { (name, bytes) ->
            val done = transformer.transform(bytes)
            done.methods.forEach { methods[it.id.toString()] = it.name }
            name to (done.bytes ?: bytes)
        }
        return Loader(javaClass.classLoader, classes)
    }

    private fun file(name: String): ByteArray =
        javaClass.classLoader.getResourceAsStream(name.replace('.', '/') + ".class")!!.use { it.readBytes() }

    private fun taken(): String = Recorder.take().joinToString(" ") { methods[it] ?: it }

    private fun subject(): Class<*> = rewritten(SUBJECT to file(SUBJECT), SHAPE to file(SHAPE)).loadClass(SUBJECT)

    private fun make(type: Class<*>, size: Int, failing: Boolean): Any = try {
        type.getConstructor(Int::class.java, Boolean::class.java).newInstance(size, failing)
    } catch (error: InvocationTargetException) {
        throw error.targetException
    }

    private fun call(on: Any, name: String, vararg arguments: Any): Any? = try {
        on.javaClass.methods.first { it.name == name }.invoke(on, *arguments)
    } catch (error: InvocationTargetException) {
        throw error.targetException
    }

    @Test
    fun everyWayOutEndsTheSection() {
        val subject = make(subject(), 5, false)
        // Static initialisers, and constructors from behind the call of the other one.
        assertEquals("<clinit> E <init> E", taken())
        val plain = com.example.Subject(5)
        for ((name, arguments) in listOf("area" to emptyList(), "twice" to emptyList<Int>(), "slots" to listOf(1), "slots" to listOf(2), "locked" to listOf(4), "endless" to listOf(7))) {
            assertEquals(call(plain, name, *arguments.toTypedArray()), call(subject, name, *arguments.toTypedArray()), name)
        }
        assertEquals("area E twice area E E slots E slots E locked area E E endless E", taken())
        for (x in -1..4) assertEquals(plain.branches(x), call(subject, "branches", x))
        assertEquals("branches E ".repeat(6).trim(), taken())
        assertEquals(plain.lambda(), call(subject, "lambda"))
        assertTrue(Regex("lambda( branches E)+ E").matches(taken()))
    }

    @Test
    fun exceptionsLeaveBalancedSections() {
        val type = subject()
        val subject = make(type, 1, false)
        taken()
        val thrown = assertThrows(IllegalStateException::class.java) { call(subject, "calleeThrows") }
        assertEquals("none", thrown.message)
        assertEquals("calleeThrows throws E E", taken())
        assertEquals("caught none", call(subject, "catches"))
        assertEquals("catches calleeThrows throws E E E", taken())
        assertEquals("finally", call(subject, "getLabel"))
        assertThrows(IllegalStateException::class.java) { call(subject, "rethrows") }
        assertEquals("rethrows calleeThrows throws E E branches E E", taken())
        assertThrows(IllegalArgumentException::class.java) { make(type, 1, true) }
        assertEquals("<init> E", taken())
        // A constructor's section begins after the call of the other constructor.
        assertThrows(IllegalArgumentException::class.java) { make(type, 0, false) }
        assertEquals("", taken())
    }

    @Test
    fun whatHasNoCodeOrOnlyCallsAnotherIsLeftAlone() {
        val names = Transformer(Rules(), CountedIds(), Recorder.TARGET).transform(file(BASE)).methods.map { it.name + it.descriptor }
        assertTrue("compareTo(Lcom/example/Base;)I" in names, "$names")
        assertFalse("compareTo(Ljava/lang/Object;)I" in names, "the bridge: $names")
        assertFalse(names.any { it.startsWith("name(") }, "abstract: $names")
        assertFalse(names.any { it.startsWith("getSize(") }, "a getter: $names")
    }

    @Test
    fun trivialMethodsAreTakenWhenAskedFor() {
        val some = Transformer(Rules(), CountedIds()).transform(file(SUBJECT)).methods.map { it.name }
        val all = Transformer(Rules(skipTrivial = false), CountedIds()).transform(file(SUBJECT)).methods.map { it.name }
        assertFalse("getLabel" in some || "setLabel" in some && "getLabel" !in all)
        assertTrue("getLabel" in all && "setLabel" in all)
        assertTrue(some.containsAll(listOf("branches", "locked", "throws", "<init>", "<clinit>")), "$some")
    }

    @Test
    fun aMethodThatWouldBeTooLargeIsLeftAloneAndListed() {
        val bytes = generated(Opcodes.V11) { writer ->
            for ((name, calls) in listOf("large" to 16_382, "small" to 4)) {
                method(writer, name, "()I") {
                    visitInsn(Opcodes.ICONST_0)
                    // Four bytes each: 65,528 in all.
                    repeat(calls) { visitInsn(Opcodes.ICONST_1); visitInsn(Opcodes.IADD); visitInsn(Opcodes.NOP); visitInsn(Opcodes.NOP) }
                    visitInsn(Opcodes.IRETURN)
                }
            }
        }
        val done = Transformer(Rules(skipTrivial = false), CountedIds(), Recorder.TARGET).transform(bytes)
        assertEquals(listOf("large" to Skipped.TOO_LARGE), done.skipped.map { it.first.name to it.second })
        assertEquals(listOf("small"), done.methods.map { it.name }.filter { it != "<init>" })
        val type = Loader(javaClass.classLoader, mapOf("Generated" to done.bytes!!)).loadClass("Generated")
        assertEquals(16_382, type.getMethod("large").invoke(null))
        assertEquals(4, type.getMethod("small").invoke(null))
    }

    /** COPY_FRAMES: frames expanded, a writer that computes nothing, and no second try. */
    @Test
    fun asTheAndroidPluginDrivesItClassesRunAndLargeMethodsAreLeftAlone() {
        fun driven(bytes: ByteArray): Pair<ByteArray, TracingVisitor> {
            val writer = ClassWriter(0)
            val visitor = Transformer(Rules(skipTrivial = false), CountedIds(), Recorder.TARGET).visitor(writer)
            ClassReader(bytes).accept(visitor, ClassReader.EXPAND_FRAMES)
            return writer.toByteArray() to visitor
        }
        val (subject, visitor) = driven(file(SUBJECT))
        visitor.methods.forEach { methods[it.id.toString()] = it.name }
        val type = Loader(javaClass.classLoader, mapOf(SUBJECT to subject)).loadClass(SUBJECT)
        val made = make(type, 5, false)
        taken()
        for ((name, arguments) in listOf("area" to emptyList<Any>(), "slots" to listOf<Any>(2), "locked" to listOf<Any>(4), "setLabel" to listOf<Any>("x"), "branches" to listOf<Any>(2))) {
            call(made, name, *arguments.toTypedArray())
        }
        val seen = taken()
        assertTrue(seen.startsWith("area E slots E locked area E E setLabel E branches E"), seen)
        assertEquals("caught x", call(made, "catches"))

        val generated = generated(Opcodes.V11) { writer ->
            for ((name, nops) in listOf("large" to 65_530, "nothing" to 0)) {
                method(writer, name, "()V") {
                    repeat(nops) { visitInsn(Opcodes.NOP) }
                    visitInsn(Opcodes.RETURN)
                }
            }
        }
        val (bytes, of) = driven(generated)
        assertEquals(listOf("large" to Skipped.TOO_LARGE), of.skipped.map { it.first.name to it.second })
        val loaded = Loader(javaClass.classLoader, mapOf("Generated" to bytes)).loadClass("Generated")
        loaded.getMethod("large").invoke(null)
        taken()
        loaded.getMethod("nothing").invoke(null)
        assertEquals(2, Recorder.take().size)
    }

    @Test
    fun aConstructorThatCallsAnotherInTwoPlacesIsLeftAloneAndListed() {
        val bytes = generated(Opcodes.V1_5) { writer ->
            method(writer, "<init>", "(I)V", Opcodes.ACC_PUBLIC) {
                val other = Label()
                visitVarInsn(Opcodes.ILOAD, 1)
                visitJumpInsn(Opcodes.IFEQ, other)
                visitVarInsn(Opcodes.ALOAD, 0)
                visitMethodInsn(Opcodes.INVOKESPECIAL, "java/lang/Object", "<init>", "()V", false)
                visitInsn(Opcodes.RETURN)
                visitLabel(other)
                visitVarInsn(Opcodes.ALOAD, 0)
                visitMethodInsn(Opcodes.INVOKESPECIAL, "java/lang/Object", "<init>", "()V", false)
                visitInsn(Opcodes.RETURN)
            }
        }
        val done = Transformer(Rules(skipTrivial = false), CountedIds(), Recorder.TARGET).transform(bytes)
        assertEquals(listOf(Skipped.SEVERAL_BEGINNINGS), done.skipped.map { it.second })
    }

    @Test
    fun classesOfOldVersionsWithoutFramesAreRewritten() {
        val bytes = generated(Opcodes.V1_5) { writer ->
            method(writer, "half", "(I)I") {
                val odd = Label()
                visitVarInsn(Opcodes.ILOAD, 0)
                visitInsn(Opcodes.ICONST_1)
                visitInsn(Opcodes.IAND)
                visitJumpInsn(Opcodes.IFNE, odd)
                visitVarInsn(Opcodes.ILOAD, 0)
                visitInsn(Opcodes.ICONST_2)
                visitInsn(Opcodes.IDIV)
                visitInsn(Opcodes.IRETURN)
                visitLabel(odd)
                visitTypeInsn(Opcodes.NEW, "java/lang/ArithmeticException")
                visitInsn(Opcodes.DUP)
                visitMethodInsn(Opcodes.INVOKESPECIAL, "java/lang/ArithmeticException", "<init>", "()V", false)
                visitInsn(Opcodes.ATHROW)
            }
        }
        val half = rewritten("Generated" to bytes, rules = Rules()).loadClass("Generated").getMethod("half", Int::class.java)
        assertEquals(21, half.invoke(null, 42))
        assertEquals("half E", taken())
        assertThrows(InvocationTargetException::class.java) { half.invoke(null, 1) }
        assertEquals("half E", taken())
    }

    @Test
    fun rulesIncludeAndExclude() {
        val rules = Rules(listOf("com.example.**", "org.*.Main#on*"), listOf("com.example.gen.*", "**#toString"))
        fun check(expected: Boolean, type: String, method: String) = assertEquals(expected, rules.includes(type, method), "$type#$method")
        check(true, "com.example.a.B", "x")
        check(false, "com.example.gen.B", "x")
        check(true, "com.example.gen.a.B", "x")
        check(false, "com.example.a.B", "toString")
        check(true, "org.app.Main", "onCreate")
        check(false, "org.app.Main", "create")
        check(false, "org.app.x.Main", "onCreate")
        assertFalse(rules.mayInclude("net.example.A") || rules.mayInclude("com.example.gen.B"))
        assertTrue(Rules().includes("a.B", "c") && Rules().includes("dev.tracetee.sample.A", "b"))
        // The library itself.
        assertFalse(Rules().includes("dev.tracetee.Native", "load") || Rules().mayInclude("dev.tracetee.coroutines.TraceKt"))
        val parsed = Rules.parse("# all\ninclude com.**\n\nexclude com.a.*\n", "rules.txt")
        assertTrue(parsed.includes("com.b.C", "d") && !parsed.includes("com.a.C", "d"))
        val error = assertThrows(IllegalArgumentException::class.java) { Rules.parse("include a\nincluded b", "rules.txt") }
        assertTrue("rules.txt, line 2" in error.message!!, error.message)
    }

    @Test
    fun idsStayWhereAnEarlierMappingHasThem() {
        val before = Transformer(Rules(), CountedIds()).transform(file(SUBJECT)).methods
        val text = before.drop(3).joinToString("") { it.line() + "\n" }
        assertTrue(Regex("""\d+,\d+,com\.example\.Subject locked \(I\)J""").containsMatchIn(text), text)
        val after = Transformer(Rules(), CountedIds.parse(text, "old.txt")).transform(file(SUBJECT)).methods
        assertEquals(before.drop(3).toSet(), after.drop(3).toSet())
        assertEquals(before.size, after.map { it.id }.toSet().size)
        val error = assertThrows(IllegalArgumentException::class.java) { CountedIds.parse("1,1,a b ()V\nx", "old.txt") }
        assertTrue("old.txt, line 2" in error.message!!, error.message)
    }

    @Test
    fun thePluginsMappingIsThatOfClassesBeforeAndBehindTheirInstrumentation() {
        val done = Transformer(Rules(), HashedIds).transform(file(SUBJECT))
        assertEquals(done.methods, InstrumentedMethods.of(done.bytes!!, Target.LIBRARY.owner))
        val transformer = Transformer(Rules(), HashedIds)
        for (bytes in listOf(file(SUBJECT), done.bytes)) assertEquals(done.methods, InstrumentedMethods.orWouldBe(bytes, transformer))
        val again = Transformer(Rules(), HashedIds).transform(file(SUBJECT))
        assertArrayEquals(done.bytes, again.bytes)
        assertTrue(done.methods.all { it.id in 0 until (1L shl 48) })
    }

    @Test
    fun whatNoRuleMeansStays() {
        assertNull(Transformer(Rules(include = listOf("org.**")), CountedIds()).transform(file(SUBJECT)).bytes)
        assertNull(Transformer(Rules(include = listOf("com.example.Subject#nothing")), CountedIds()).transform(file(SUBJECT)).bytes)
    }

    private fun generated(version: Int, write: (ClassWriter) -> Unit): ByteArray {
        val writer = ClassWriter(ClassWriter.COMPUTE_MAXS)
        writer.visit(version, Opcodes.ACC_PUBLIC, "Generated", null, "java/lang/Object", null)
        write(writer)
        writer.visitEnd()
        return writer.toByteArray()
    }

    private fun method(writer: ClassWriter, name: String, descriptor: String, access: Int = Opcodes.ACC_PUBLIC or Opcodes.ACC_STATIC, code: MethodVisitor.() -> Unit) {
        val method = writer.visitMethod(access, name, descriptor, null, null)
        method.visitCode()
        method.code()
        method.visitMaxs(0, 0)
        method.visitEnd()
    }

    private companion object {
        const val SUBJECT = "com.example.Subject"
        const val SHAPE = "com.example.Shape"
        const val BASE = "com.example.Base"
    }
}
