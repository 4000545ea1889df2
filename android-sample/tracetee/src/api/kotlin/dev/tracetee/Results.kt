// Results of Tracetee's functions that are more than success or failure.
package dev.tracetee

/**
 * Health report of the agent, which explains empty traces and lost captures.
 *
 * @property headline first problem to look at: a lost capture, or why nothing is recorded; null if there is none
 * @property isRecording true while a capture is recording
 * @property json the whole report, which `tracetee doctor FILE` reads
 */
public class HealthReport internal constructor(
    public val headline: String?,
    public val isRecording: Boolean,
    public val json: String,
) {
    /** Returns [json]. */
    override fun toString(): String = json
}

/** Result of [Tracetee.upload]. */
public sealed class UploadResult {
    /**
     * The agent has sent what its policy allows now.
     *
     * @property delivered ids of the captures that the collector has now
     * @property waiting captures that still wait on the device
     * @property held reason why the agent sends nothing more now; null if all is sent
     * @property againMs time after which another call makes sense, in milliseconds
     */
    public class Done internal constructor(
        public val delivered: List<String>,
        public val waiting: Long,
        public val held: String?,
        public val againMs: Long,
    ) : UploadResult() {
        override fun toString(): String = "delivered $delivered, $waiting wait; again in $againMs ms${held?.let { ": $it" }.orEmpty()}"
    }

    /**
     * The agent could not search for captures to send.
     *
     * @property reason human-readable message
     */
    public class Failed internal constructor(public val reason: String) : UploadResult() {
        override fun toString(): String = reason
    }
}
