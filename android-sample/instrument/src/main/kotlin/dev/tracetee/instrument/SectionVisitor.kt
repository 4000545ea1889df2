package dev.tracetee.instrument

import org.objectweb.asm.Handle
import org.objectweb.asm.Label
import org.objectweb.asm.MethodVisitor
import org.objectweb.asm.Opcodes
import org.objectweb.asm.commons.AdviceAdapter

/**
 * Writes a method with its section: a begin at its start (in a constructor, after the call of the other
 * constructor), an end before each return, and an exception handler that ends the section and rethrows.
 *
 * The handler's frame has no local variables, so that it is valid wherever an exception is thrown. No frame of the
 * method changes, and the visitor needs no knowledge of other classes.
 */
internal class SectionVisitor private constructor(
    private val out: Noticing,
    private val method: Method,
    private val target: Target,
    private val hasFrames: Boolean,
) : AdviceAdapter(TracingVisitor.API, out, method.access, method.name, method.descriptor) {
    constructor(next: MethodVisitor, method: Method, target: Target, hasFrames: Boolean) :
        this(Noticing(next), method, target, hasFrames)

    /** Number of begins written; a method that can be instrumented has exactly one. */
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
        // An exception thrown here reaches the handler, like those of callees.
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
            // Last in the table, so that the method's own handlers come first.
            for ((from, to) in ranges) out.visitTryCatchBlock(from, to, handler, null)
            out.visitLabel(handler)
            if (hasFrames) out.visitFrame(Opcodes.F_NEW, 0, emptyArray(), 1, arrayOf("java/lang/Throwable"))
            call(target.end, "()V")
            out.visitInsn(ATHROW)
        }
        // Adds the id on top of the stack. The Android Gradle plugin's writer does not compute this value itself.
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

    /** Notes whether an instruction was written. */
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
