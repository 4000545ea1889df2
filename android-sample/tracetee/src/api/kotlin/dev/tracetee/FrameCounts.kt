// Counts of frames in a time; the library computes them (FrameLog.kt).
package dev.tracetee

/**
 * Counts of the frames that were due in a time, from [Tracetee.countFrames].
 *
 * @property frames number of frames
 * @property late frames that were complete after their deadline; from API 36 on those that the compositor calls janky
 * @property frozen frames that took longer than 700 ms
 * @property overrunNs time past the deadlines, ns
 * @property topCause the cause with most of the overrun; null without a late frame
 * @property isWhole false if the time began before the frames that the library remembers: its last 4096
 */
public class FrameCounts(
    public val frames: Int,
    public val late: Int,
    public val frozen: Int,
    public val overrunNs: Long,
    public val topCause: Cause?,
    public val isWhole: Boolean,
) {
    /** The part of a late frame that took longest, or another reason for its lateness. */
    public enum class Cause {
        /** The main thread was busy with something else when the frame was due. */
        DELAY,

        /** Callbacks of input. */
        INPUT,

        /** Callbacks of animations. */
        ANIMATION,

        /** Measuring and layout. */
        LAYOUT,

        /** Recording of the drawing on the main thread. */
        DRAW,

        /** Handing the drawing to the render thread: uploads of bitmaps. */
        SYNC,

        /** The render thread's commands. */
        COMMANDS,

        /** Waiting for and swapping of buffers. */
        SWAP,

        /** The graphics processor. */
        GPU,

        /** The compositor. */
        SYSTEM,
    }
}
