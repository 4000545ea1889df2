package dev.tracetee.instrument

import org.objectweb.asm.Opcodes
import org.objectweb.asm.tree.MethodInsnNode
import org.objectweb.asm.tree.MethodNode

/** Recognizes trivial methods: getters, setters, constants, empty methods and constructors. */
internal object Trivial {
    private const val MAX_INSTRUCTIONS = 12

    fun isTrivial(method: MethodNode): Boolean {
        if (method.access and Opcodes.ACC_SYNCHRONIZED != 0 || method.tryCatchBlocks.isNotEmpty()) return false
        var instructions = 0
        var calls = 0
        for (instruction in method.instructions) {
            val opcode = instruction.opcode
            if (opcode < 0) continue
            if (++instructions > MAX_INSTRUCTIONS) return false
            when (opcode) {
                in Opcodes.NOP..Opcodes.ALOAD, in Opcodes.ISTORE..Opcodes.ASTORE -> Unit
                in Opcodes.POP..Opcodes.SWAP, in Opcodes.I2L..Opcodes.I2S -> Unit
                in Opcodes.IRETURN..Opcodes.RETURN, in Opcodes.GETSTATIC..Opcodes.PUTFIELD -> Unit
                Opcodes.CHECKCAST -> Unit
                // A constructor that calls Object's.
                Opcodes.INVOKESPECIAL -> {
                    val call = instruction as MethodInsnNode
                    if (method.name != "<init>" || call.owner != "java/lang/Object" || ++calls > 1) return false
                }
                else -> return false
            }
        }
        return true
    }
}
