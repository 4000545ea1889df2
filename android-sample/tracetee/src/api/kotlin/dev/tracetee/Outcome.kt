// The outcome of a call that can fail. androidx-tracing makes some, too.
package dev.tracetee

/**
 * Outcome of a call that can fail: done, or the reason why not.
 *
 * @property error message for people; null if the call is done
 */
public class Outcome private constructor(public val error: String?) {
    /** True if the call has done what it says. */
    public val isDone: Boolean get() = error == null

    /** Returns [error], or `done`. */
    override fun toString(): String = error ?: "done"

    public companion object {
        /** The outcome of every call that is done, so that it allocates nothing. */
        @JvmField
        public val DONE: Outcome = Outcome(null)

        /** Returns the outcome of a call that failed, such as that of a stand-in for the library in an app's tests. */
        @JvmStatic
        public fun failed(error: String): Outcome = Outcome(error)
    }
}
