// A stand-in for the library's object, which needs the agent: it keeps the screens.
package dev.tracetee

object Tracetee {
    val screens = ArrayList<String>()

    fun setScreen(name: String) {
        screens.add(name)
    }
}
