// The receiver of a streamed capture; Tracetee.listen calls it.
package dev.tracetee

/** Receives a streamed capture while it is recorded. See [Tracetee.listen]. */
public fun interface BlockListener {
    /**
     * Receives a block of the trace.
     *
     * @param text whole lines of ftrace text in UTF-8, at most 256 KiB; empty if the capture's last blocks were dropped
     * @param lost number of blocks dropped before this one, because this listener was slow and 16 others waited. The
     * capture's file has them
     */
    public fun onBlock(text: ByteArray, lost: Long)
}
