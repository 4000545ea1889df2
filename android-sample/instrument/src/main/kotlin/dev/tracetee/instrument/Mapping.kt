package dev.tracetee.instrument

/** A method in the mapping file. */
internal data class Method(val id: Long, val access: Int, val owner: String, val name: String, val descriptor: String) {
    /** Formats the line of the mapping file, as Matrix does: `id,access,class method desc`, with dots for slashes. */
    fun line(): String = "$id,$access,${owner.replace('/', '.')} $name ${descriptor.replace('/', '.')}"
}

/** Assigns ids to methods. Thread-safe. */
internal fun interface Ids {
    fun of(owner: String, name: String, descriptor: String): Long
}

/**
 * Counts ids from 1, because small numbers make small records. Methods in [known] keep their ids, so that traces of
 * two releases can be compared.
 */
internal class CountedIds(known: Map<String, Long> = emptyMap()) : Ids {
    private val ids = HashMap(known)
    private var last = known.values.maxOrNull() ?: 0

    @Synchronized
    override fun of(owner: String, name: String, descriptor: String): Long =
        ids.getOrPut(key(owner, name, descriptor)) { ++last }

    companion object {
        private fun key(owner: String, name: String, descriptor: String) =
            "${owner.replace('/', '.')} $name ${descriptor.replace('/', '.')}"

        /** Reads an earlier mapping file. */
        fun parse(text: String, source: String): CountedIds {
            val known = HashMap<String, Long>()
            text.lineSequence().forEachIndexed { index, line ->
                if (line.isNotBlank()) {
                    val fields = line.trim().split(',', limit = 3)
                    val id = fields[0].toLongOrNull()
                    require(id != null && fields.size == 3) {
                        "$source, line ${index + 1}: \"$line\" is not of the form id,access,class method desc"
                    }
                    known[fields[2]] = id
                }
            }
            return CountedIds(known)
        }
    }
}

/**
 * Hashes the method's name to 48 bits, so that builds and workers agree on ids without shared state. The chance
 * that two of 200,000 methods share an id is 1 in 14,000.
 */
internal object HashedIds : Ids {
    override fun of(owner: String, name: String, descriptor: String): Long {
        // FNV-1a, 64 bits, folded.
        var hash = -0x340d631b7bdddcdbL
        for (byte in "$owner $name $descriptor".toByteArray()) hash = (hash xor (byte.toLong() and 0xff)) * 0x100000001b3L
        return ((hash ushr 48) xor hash) and 0xffff_ffff_ffffL
    }
}
