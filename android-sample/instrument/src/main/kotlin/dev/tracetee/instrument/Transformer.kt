package dev.tracetee.instrument

import org.objectweb.asm.ClassReader
import org.objectweb.asm.ClassVisitor
import org.objectweb.asm.ClassWriter
import org.objectweb.asm.MethodTooLargeException
import org.objectweb.asm.MethodVisitor
import org.objectweb.asm.Opcodes
import org.objectweb.asm.commons.CodeSizeEvaluator
import org.objectweb.asm.tree.MethodNode

/** Reason why a method that the rules include has no section. */
internal enum class Skipped(val why: String) {
    TOO_LARGE("with a section it would exceed the limit of 64 KB"),
    SEVERAL_BEGINNINGS("it is a constructor that calls another constructor in several places"),
}

/** Result of the instrumentation of a class. */
internal class Transformed(
    /** The instrumented class file; null if the class stays unchanged. */
    val bytes: ByteArray?,
    val methods: List<Method>,
    val skipped: List<Pair<Method, Skipped>>,
)

/** The static methods that sections call: `begin(Ljava/lang/String;)V` and `end()V` of [owner]. */
internal data class Target(val owner: String, val begin: String, val end: String) {
    companion object {
        /** The methods of the library. */
        val LIBRARY = Target("dev/tracetee/MethodTrace", "begin", "end")
    }
}

/**
 * Puts a section around each method that the rules include. The section's name is the method's id. Thread-safe.
 *
 * It skips abstract and native methods, which have no code, bridge methods, whose target has a section, and trivial methods
 * if the rules say so.
 */
internal class Transformer(
    private val rules: Rules,
    private val ids: Ids,
    private val target: Target = Target.LIBRARY,
) {
    fun transform(classFile: ByteArray): Transformed {
        val reader = ClassReader(classFile)
        if (!rules.mayInclude(reader.className.replace('/', '.'))) return Transformed(null, emptyList(), emptyList())
        val skipped = ArrayList<Pair<Method, Skipped>>()
        val tooLarge = HashSet<String>()
        while (true) {
            // Copies frames and constants of unchanged methods.
            val writer = ClassWriter(reader, ClassWriter.COMPUTE_MAXS)
            val visitor = TracingVisitor(writer, rules, ids, target, tooLarge, isSizeJudged = false)
            reader.accept(visitor, ClassReader.EXPAND_FRAMES)
            try {
                val bytes = if (visitor.methods.isEmpty()) null else writer.toByteArray()
                return Transformed(bytes, visitor.methods, visitor.skipped + skipped)
            } catch (error: MethodTooLargeException) {
                val key = error.methodName + error.descriptor
                // The original method is within the limit, so this happens once for each method.
                check(tooLarge.add(key)) { "${reader.className}.$key: $error" }
                skipped.add(visitor.methods.first { it.name + it.descriptor == key } to Skipped.TOO_LARGE)
            }
        }
    }

    /**
     * Returns a visitor for callers that drive ASM themselves, as the Android Gradle plugin does. They read with
     * `EXPAND_FRAMES` and compute no frames. The visitor has no second attempt, so it skips a method that may
     * become too large.
     */
    fun visitor(next: ClassVisitor): TracingVisitor =
        TracingVisitor(next, rules, ids, target, leaveAlone = emptySet(), isSizeJudged = true)
}

/** Instruments one class. */
internal class TracingVisitor internal constructor(
    next: ClassVisitor,
    private val rules: Rules,
    private val ids: Ids,
    private val target: Target,
    private val leaveAlone: Set<String>,
    private val isSizeJudged: Boolean,
) : ClassVisitor(API, next) {
    val methods = ArrayList<Method>()
    val skipped = ArrayList<Pair<Method, Skipped>>()
    private var owner = ""
    private var version = 0
    private var superName: String? = null

    override fun visit(version: Int, access: Int, name: String, signature: String?, superName: String?, interfaces: Array<out String>?) {
        owner = name
        this.version = version and 0xffff
        this.superName = superName
        super.visit(version, access, name, signature, superName, interfaces)
    }

    override fun visitMethod(access: Int, name: String, descriptor: String, signature: String?, exceptions: Array<out String>?): MethodVisitor? {
        val next = super.visitMethod(access, name, descriptor, signature, exceptions) ?: return null
        val hasCode = access and (Opcodes.ACC_ABSTRACT or Opcodes.ACC_NATIVE) == 0
        val isMeant = hasCode && access and Opcodes.ACC_BRIDGE == 0 && name + descriptor !in leaveAlone &&
            rules.includes(owner.replace('/', '.'), name)
        if (!isMeant) return next
        return object : MethodNode(API, access, name, descriptor, signature, exceptions) {
            override fun visitEnd() {
                write(this, next)
            }
        }
    }

    private fun write(code: MethodNode, next: MethodVisitor) {
        if (rules.skipTrivial && Trivial.isTrivial(code)) return code.accept(next)
        val method = Method(ids.of(owner, code.name, code.desc), code.access, owner, code.name, code.desc)
        val traced = MethodNode(API, code.access, code.name, code.desc, code.signature, code.exceptions.toTypedArray())
        val section = SectionVisitor(traced, method, target, version >= Opcodes.V1_6)
        code.accept(section)
        val skip = when {
            section.beginnings > 1 -> Skipped.SEVERAL_BEGINNINGS
            isSizeJudged && mayBeTooLarge(traced) -> Skipped.TOO_LARGE
            else -> null
        }
        if (skip != null) skipped.add(method to skip)
        if (skip == null && section.beginnings == 1) {
            methods.add(method)
            traced.accept(next)
        } else {
            code.accept(next)
        }
    }

    private fun mayBeTooLarge(code: MethodNode): Boolean {
        val size = CodeSizeEvaluator(null)
        code.accept(size)
        return size.maxSize > MAX_CODE_BYTES
    }

    companion object {
        const val API = Opcodes.ASM9

        /** Limit of the class file format. */
        const val MAX_CODE_BYTES = 65_535
    }
}
