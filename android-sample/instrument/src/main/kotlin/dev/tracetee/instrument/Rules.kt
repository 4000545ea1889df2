package dev.tracetee.instrument

/**
 * Decides which methods get a section.
 *
 * A pattern names classes, or methods after a `#`: `com.example.**`, `com.example.Main#on*`. `*` matches part of a
 * name without dots, `**` one with dots. An exclude pattern takes precedence over an include pattern. Without an
 * include pattern everything is included.
 */
internal class Rules(
    include: List<String> = emptyList(),
    exclude: List<String> = emptyList(),
    /** Skips trivial methods: getters, setters, constants, empty methods. */
    val skipTrivial: Boolean = true,
) {
    private val includes = include.map(::Pattern)
    private val excludes = (exclude + ALWAYS_EXCLUDED).map(::Pattern)

    /** True if the rules may include a method of class [name] (with dots). */
    fun mayInclude(name: String): Boolean =
        excludes.none { it.method == null && it.isClass(name) } && (includes.isEmpty() || includes.any { it.isClass(name) })

    /** True if the rules include the method. */
    fun includes(className: String, method: String): Boolean =
        excludes.none { it.matches(className, method) } && (includes.isEmpty() || includes.any { it.matches(className, method) })

    private class Pattern(text: String) {
        private val type = glob(text.substringBefore('#'))
        val method = if ('#' in text) glob(text.substringAfter('#')) else null

        init {
            require(text.substringBefore('#').isNotEmpty() && !text.endsWith('#')) { "the pattern \"$text\" names no ${if (text.endsWith('#')) "method" else "class"}" }
        }

        fun isClass(name: String) = type.matches(name)
        fun matches(className: String, name: String) = isClass(className) && (method == null || method.matches(name))

        private fun glob(text: String): Regex {
            val pattern = Regex("""\*\*|\*|[^*]+""").findAll(text).joinToString("") {
                when (it.value) {
                    "**" -> ".*"
                    "*" -> "[^.]*"
                    else -> Regex.escape(it.value)
                }
            }
            return Regex(pattern)
        }
    }

    companion object {
        // A section in the code that sections call would call itself.
        private val ALWAYS_EXCLUDED = listOf("dev.tracetee.*", "dev.tracetee.coroutines.*", "android.os.Trace")

        /** Reads lines `include PATTERN`, `exclude PATTERN`, `trivial`; a line that starts with `#` is a comment. */
        fun parse(text: String, source: String): Rules {
            val include = ArrayList<String>()
            val exclude = ArrayList<String>()
            var skipTrivial = true
            text.lineSequence().forEachIndexed { index, line ->
                val words = line.trim().split(Regex("\\s+"))
                when {
                    line.isBlank() || line.trimStart().startsWith("#") -> Unit
                    words.size == 2 && words[0] == "include" -> include.add(words[1])
                    words.size == 2 && words[0] == "exclude" -> exclude.add(words[1])
                    words == listOf("trivial") -> skipTrivial = false
                    else -> throw IllegalArgumentException(
                        "$source, line ${index + 1}: \"$line\" is not one of: include PATTERN, exclude PATTERN, trivial",
                    )
                }
            }
            return Rules(include, exclude, skipTrivial)
        }
    }
}
