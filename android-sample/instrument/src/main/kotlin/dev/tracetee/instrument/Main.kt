// The instrumenter as a program, from jar to jar.
package dev.tracetee.instrument

import java.io.File
import java.io.IOException
import kotlin.system.exitProcess

private const val HELP = """Puts a section around the methods of a jar's classes.

  instrument IN.jar -o OUT.jar --mapping OUT.txt [options]

  --rules FILE        lines "include PATTERN", "exclude PATTERN"; a pattern is com.example.** or
                      com.example.Main#on*; "trivial" takes getters and setters too
  --include PATTERN   the same from the command line; may be given several times
  --exclude PATTERN
  --keep-ids FILE     a mapping of before: its methods keep their ids
  --target OWNER      the class with begin(String) and end(); default dev/tracetee/MethodTrace
  --skipped FILE      the methods that could not be traced, with the reason; default: on stderr

The mapping (id,access,class method desc) is what tracetee's --mapping takes."""

fun main(arguments: Array<String>) {
    try {
        run(arguments.toList())
    } catch (error: IOException) {
        fail(error.message ?: error.toString())
    } catch (error: IllegalArgumentException) {
        fail(error.message ?: error.toString())
    }
}

private fun run(arguments: List<String>) {
    val inputs = ArrayList<String>()
    val include = ArrayList<String>()
    val exclude = ArrayList<String>()
    val options = HashMap<String, String>()
    val left = arguments.iterator()
    fun value(of: String) = if (left.hasNext()) left.next() else throw IllegalArgumentException("$of needs a value")
    while (left.hasNext()) {
        when (val argument = left.next()) {
            "-h", "--help" -> return println(HELP)
            "--include" -> include.add(value(argument))
            "--exclude" -> exclude.add(value(argument))
            "-o", "--mapping", "--rules", "--keep-ids", "--target", "--skipped" -> options[argument] = value(argument)
            else -> {
                require(!argument.startsWith("-")) { "there is no option $argument; see --help" }
                inputs.add(argument)
            }
        }
    }
    require(inputs.size == 1 && "-o" in options && "--mapping" in options) {
        "one jar, -o OUT.jar and --mapping OUT.txt are needed; see --help"
    }
    val input = existing(inputs[0])
    val output = File(options.getValue("-o"))
    require(input.canonicalFile != output.canonicalFile) { "$input cannot be its own output" }
    val rules = options["--rules"]?.let { Rules.parse(existing(it).readText(), it) }
    require(rules == null || include.isEmpty() && exclude.isEmpty()) { "--rules, or --include and --exclude" }
    val ids = options["--keep-ids"]?.let { CountedIds.parse(existing(it).readText(), it) } ?: CountedIds()
    val target = options["--target"]?.let { Target(it.replace('.', '/'), "begin", "end") } ?: Target.LIBRARY

    val report = try {
        Jars(Transformer(rules ?: Rules(include, exclude), ids, target)).transform(input, output)
    } catch (error: java.util.zip.ZipException) {
        throw IllegalArgumentException("$input is no jar: ${error.message}")
    }
    File(options.getValue("--mapping")).writeText(report.methods.sortedBy { it.id }.joinToString("") { it.line() + "\n" })
    val skipped = report.skipped.joinToString("") { (method, why) -> "${method.line().substringAfter(',').substringAfter(',')}: ${why.why}\n" }
    options["--skipped"]?.let { File(it).writeText(skipped) } ?: System.err.print(skipped)
    report.dropped.forEach { System.err.println("$it left out: a signature of what has changed") }
    report.unread.forEach { System.err.println("$it: left as it was") }
    println("${report.methods.size} methods in ${report.changed} of ${report.classes} classes have a section")
}

private fun existing(path: String) = File(path).also { require(it.isFile) { "$path is not there, or no file" } }

private fun fail(why: String): Nothing {
    System.err.println("instrument: $why")
    exitProcess(2)
}
