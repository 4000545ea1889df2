// The outcome of a call that can fail. androidx-tracing makes some, too.
package dev.tracetee

/**
 * Outcome of a call that can fail: success, or the reason for the failure.
 *
 * @property error human-readable message; null if the call succeeded
 */
public class Outcome private constructor(public val error: String?) {
    /** True if the call succeeded. */
    public val isDone: Boolean get() = error == null

    /** Returns [error], or `done`. */
    override fun toString(): String = error ?: "done"

    public companion object {
        /** The outcome of every successful call; it is shared, to avoid allocations. */
        @JvmField
        public val DONE: Outcome = Outcome(null)

        /** Returns the outcome of a call that failed, for example from a test double of the library in an app's tests. */
        @JvmStatic
        public fun failed(error: String): Outcome = Outcome(error)
    }
}
