// A stand-in for AOSP's class of this name, which calls SurfaceFlinger: it has what apps may use of it, and counts removals.
package android.view;

/** A registration. */
public class SurfaceControl$OnJankDataListenerRegistration {
    /** Number of calls of {@link #removeAfter} that end the reports at once. */
    public int removed;

    /** Asks for what there is. */
    public void flush() {}

    /** Ends the reports after a vsync; 0: now. */
    public void removeAfter(long afterVsync) {
        if (afterVsync <= 0) removed++;
    }
}
