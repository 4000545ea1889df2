package dev.tracetee.instrument

import org.objectweb.asm.Handle
import org.objectweb.asm.Label
import org.objectweb.asm.MethodVisitor
import org.objectweb.asm.Opcodes
import org.objectweb.asm.commons.AdviceAdapter

/**
 * Writes a method with its section: the begin where it begins (in a constructor, behind the call of the other
 * one), an end before each return, and a handler of whatever leaves it otherwise, which ends and throws on.
 *
 * The handler's frame knows no local variables, so that it fits wherever something is thrown; no frame of the
 * method changes, and nothing about other classes has to be known.
 */
internal class SectionVisitor private constructor(
    private val out: Noticing,
    private val method: Method,
    private val target: Target,
    private val hasFrames: Boolean,
) : AdviceAdapter(TracingVisitor.API, out, method.access, method.name, method.descriptor) {
    constructor(next: MethodVisitor, method: Method, target: Target, hasFrames: Boolean) :
        this(Noticing(next), method, target, hasFrames)

    /** How often the method begins: once, if it can be traced at all. */
    var beginnings = 0
        private set
    private val ranges = ArrayList<Pair<Label, Label>>()
    private var start: Label? = null

    override fun onMethodEnter() {
        beginnings++
        out.visitLdcInsn(method.id.toString())
        call(target.begin, "(Ljava/lang/String;)V")
        open()
    }

    override fun onMethodExit(opcode: Int) {
        // What is thrown here goes to the handler, like what callees throw.
        if (opcode == ATHROW || beginnings == 0) return
        close()
        call(target.end, "()V")
    }

    override fun visitInsn(opcode: Int) {
        super.visitInsn(opcode)
        if (opcode in IRETURN..RETURN && beginnings > 0) open()
    }

    override fun visitMaxs(maxStack: Int, maxLocals: Int) {
        close()
        if (ranges.isNotEmpty()) {
            val handler = Label()
            // The last in the table: the method's own handlers come first.
            for ((from, to) in ranges) out.visitTryCatchBlock(from, to, handler, null)
            out.visitLabel(handler)
            if (hasFrames) out.visitFrame(Opcodes.F_NEW, 0, emptyArray(), 1, arrayOf("java/lang/Throwable"))
            call(target.end, "()V")
            out.visitInsn(ATHROW)
        }
        // The id, on top of whatever is there; the Android Gradle plugin's writer takes what is said here.
        super.visitMaxs(maxStack + 1, maxLocals)
    }

    private fun call(name: String, descriptor: String) = out.visitMethodInsn(INVOKESTATIC, target.owner, name, descriptor, false)

    private fun open() {
        out.hasInstructions = false
        start = Label().also(out::visitLabel)
    }

    private fun close() {
        val from = start ?: return
        start = null
        // A range must not be empty.
        if (out.hasInstructions) ranges.add(from to Label().also(out::visitLabel))
    }

    /** Notices instructions. */
    private class Noticing(next: MethodVisitor) : MethodVisitor(TracingVisitor.API, next) {
        var hasInstructions = false

        override fun visitInsn(opcode: Int) = noticed { super.visitInsn(opcode) }
        override fun visitIntInsn(opcode: Int, operand: Int) = noticed { super.visitIntInsn(opcode, operand) }
        override fun visitVarInsn(opcode: Int, index: Int) = noticed { super.visitVarInsn(opcode, index) }
        override fun visitTypeInsn(opcode: Int, type: String) = noticed { super.visitTypeInsn(opcode, type) }
        override fun visitFieldInsn(opcode: Int, owner: String, name: String, descriptor: String) =
            noticed { super.visitFieldInsn(opcode, owner, name, descriptor) }
        override fun visitMethodInsn(opcode: Int, owner: String, name: String, descriptor: String, isInterface: Boolean) =
            noticed { super.visitMethodInsn(opcode, owner, name, descriptor, isInterface) }
        override fun visitInvokeDynamicInsn(name: String, descriptor: String, bootstrap: Handle, vararg arguments: Any?) =
            noticed { super.visitInvokeDynamicInsn(name, descriptor, bootstrap, *arguments) }
        override fun visitJumpInsn(opcode: Int, label: Label) = noticed { super.visitJumpInsn(opcode, label) }
        override fun visitLdcInsn(value: Any?) = noticed { super.visitLdcInsn(value) }
        override fun visitIincInsn(index: Int, increment: Int) = noticed { super.visitIincInsn(index, increment) }
        override fun visitTableSwitchInsn(min: Int, max: Int, default: Label, vararg labels: Label) =
            noticed { super.visitTableSwitchInsn(min, max, default, *labels) }
        override fun visitLookupSwitchInsn(default: Label, keys: IntArray, labels: Array<out Label>) =
            noticed { super.visitLookupSwitchInsn(default, keys, labels) }
        override fun visitMultiANewArrayInsn(descriptor: String, dimensions: Int) =
            noticed { super.visitMultiANewArrayInsn(descriptor, dimensions) }

        private inline fun noticed(write: () -> Unit) {
            hasInstructions = true
            write()
        }
    }
}
