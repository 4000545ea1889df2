// The command-line program: instruments a jar.
package dev.tracetee.instrument

import java.io.File
import java.io.IOException
import kotlin.system.exitProcess

private const val HELP = """Put a section around each method of a jar's classes.

  instrument IN.jar -o OUT.jar --mapping OUT.txt [OPTIONS]

  --rules FILE        Read rules: lines "include PATTERN", "exclude PATTERN", "trivial"
                      (instrument getters and setters too). A pattern is com.example.**
                      or com.example.Main#on*
  --include PATTERN   Instrument matching classes or methods; repeatable
  --exclude PATTERN   Leave matching classes or methods alone; repeatable
  --keep-ids FILE     Keep the ids of an earlier mapping file
  --target OWNER      Call begin(String) and end() of this class
                      [default: dev/tracetee/MethodTrace]
  --skipped FILE      Write methods that could not be instrumented, with reasons
                      [default: stderr]

Pass the mapping file (id,access,class method desc) to tracetee as --mapping."""

/** Runs the program. */
internal fun main(arguments: Array<String>) {
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
    fun value(of: String) = if (left.hasNext()) left.next() else throw IllegalArgumentException("$of requires a value")
    while (left.hasNext()) {
        when (val argument = left.next()) {
            "-h", "--help" -> return println(HELP)
            "--include" -> include.add(value(argument))
            "--exclude" -> exclude.add(value(argument))
            "-o", "--mapping", "--rules", "--keep-ids", "--target", "--skipped" -> options[argument] = value(argument)
            else -> {
                require(!argument.startsWith("-")) { "unknown option $argument; see --help" }
                inputs.add(argument)
            }
        }
    }
    require(inputs.size == 1 && "-o" in options && "--mapping" in options) {
        "expected one jar, -o OUT.jar and --mapping OUT.txt; see --help"
    }
    val input = existing(inputs[0])
    val output = File(options.getValue("-o"))
    require(input.canonicalFile != output.canonicalFile) { "input and output are the same file: $input" }
    val rules = options["--rules"]?.let { Rules.parse(existing(it).readText(), it) }
    require(rules == null || include.isEmpty() && exclude.isEmpty()) { "--rules cannot be combined with --include or --exclude" }
    val ids = options["--keep-ids"]?.let { CountedIds.parse(existing(it).readText(), it) } ?: CountedIds()
    val target = options["--target"]?.let { Target(it.replace('.', '/'), "begin", "end") } ?: Target.LIBRARY

    val report = try {
        Jars(Transformer(rules ?: Rules(include, exclude), ids, target)).transform(input, output)
    } catch (error: java.util.zip.ZipException) {
        throw IllegalArgumentException("$input is not a jar: ${error.message}")
    }
    File(options.getValue("--mapping")).writeText(report.methods.sortedBy { it.id }.joinToString("") { it.line() + "\n" })
    val skipped = report.skipped.joinToString("") { (method, why) -> "${method.line().substringAfter(',').substringAfter(',')}: ${why.why}\n" }
    options["--skipped"]?.let { File(it).writeText(skipped) } ?: System.err.print(skipped)
    report.dropped.forEach { System.err.println("$it: left out, because instrumentation invalidates the signature") }
    report.unread.forEach { System.err.println("$it: copied unchanged") }
    println("instrumented ${report.methods.size} methods in ${report.changed} of ${report.classes} classes")
}

private fun existing(path: String) = File(path).also { require(it.isFile) { "$path does not exist or is not a file" } }

private fun fail(why: String): Nothing {
    System.err.println("instrument: $why")
    exitProcess(2)
}
