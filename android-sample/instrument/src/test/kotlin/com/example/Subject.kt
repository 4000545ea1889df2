// The classes that the tests rewrite: every kind of method.
package com.example

interface Shape {
    fun area(): Int
    fun twice(): Int = area() * 2
}

abstract class Base(val size: Int) : Comparable<Base> {
    abstract fun name(): String
    override fun compareTo(other: Base): Int = size.compareTo(other.size)
}

class Subject(size: Int, failing: Boolean = false) : Base(positive(size)), Shape {
    var label = "none"

    init {
        if (failing) throw IllegalArgumentException("in the constructor")
    }

    override fun name() = "subject $size"
    override fun area(): Int = List(size) { it }.sum()

    fun branches(x: Int): String {
        if (x < 0) return "negative"
        for (i in 0..x) if (i == 3) return "three"
        return when (x) { 0 -> "zero"; 1 -> "one"; else -> "few" }
    }

    fun throws(): Nothing = throw IllegalStateException(label)

    fun calleeThrows(): Int {
        throws()
    }

    fun catches(): String = try {
        calleeThrows().toString()
    } catch (error: IllegalStateException) {
        "caught ${error.message}"
    } finally {
        label = "finally"
    }

    fun rethrows() {
        try {
            calleeThrows()
        } finally {
            label = branches(1)
        }
    }

    @Synchronized
    fun locked(x: Int): Long {
        synchronized(label) { return x.toLong() * area() }
    }

    fun slots(x: Int): Double {
        val a = x * 2L
        val b = a.toDouble() + 0.5
        var text: Any = a
        if (b > 3) text = b.toString()
        return if (text is String) text.toDouble() else b
    }

    fun lambda(): List<Int> = listOf(3, 1, 2).sortedBy { -branches(it).length }

    fun endless(limit: Int): Int {
        var n = 0
        while (true) if (++n > limit) return n
    }

    companion object {
        var loaded = listOf("static", "initialiser").joinToString()

        private fun positive(size: Int): Int {
            require(size > 0) { "not positive" }
            return size
        }
    }
}
