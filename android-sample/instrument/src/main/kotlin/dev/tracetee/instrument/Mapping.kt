package dev.tracetee.instrument

/** A method, as the mapping file says it. */
data class Method(val id: Long, val access: Int, val owner: String, val name: String, val descriptor: String) {
    /** As Matrix writes it: `id,access,class method desc`, dots for slashes. */
    fun line(): String = "$id,$access,${owner.replace('/', '.')} $name ${descriptor.replace('/', '.')}"
}

/** Gives methods their ids. May be called from several threads. */
fun interface Ids {
    fun of(owner: String, name: String, descriptor: String): Long
}

/**
 * Small numbers from 1 on, which make small records; a method that [known] has keeps its own, so that the
 * traces of two releases can be compared.
 */
class CountedIds(known: Map<String, Long> = emptyMap()) : Ids {
    private val ids = HashMap(known)
    private var last = known.values.maxOrNull() ?: 0

    @Synchronized
    override fun of(owner: String, name: String, descriptor: String): Long =
        ids.getOrPut(key(owner, name, descriptor)) { ++last }

    companion object {
        private fun key(owner: String, name: String, descriptor: String) =
            "${owner.replace('/', '.')} $name ${descriptor.replace('/', '.')}"

        /** From an earlier mapping file. */
        fun parse(text: String, source: String): CountedIds {
            val known = HashMap<String, Long>()
            text.lineSequence().forEachIndexed { index, line ->
                if (line.isNotBlank()) {
                    val fields = line.trim().split(',', limit = 3)
                    val id = fields[0].toLongOrNull()
                    require(id != null && fields.size == 3) {
                        "$source, line ${index + 1}: \"$line\" is not id,access,class method desc"
                    }
                    known[fields[2]] = id
                }
            }
            return CountedIds(known)
        }
    }
}

/**
 * 48 bits of a hash of the method's name: the same in each build and each worker, without anything in common.
 * That two of 200,000 methods share one has a chance of 1 in 14,000.
 */
object HashedIds : Ids {
    override fun of(owner: String, name: String, descriptor: String): Long {
        // FNV-1a, 64 bits, folded.
        var hash = -0x340d631b7bdddcdbL
        for (byte in "$owner $name $descriptor".toByteArray()) hash = (hash xor (byte.toLong() and 0xff)) * 0x100000001b3L
        return ((hash ushr 48) xor hash) and 0xffff_ffff_ffffL
    }
}
