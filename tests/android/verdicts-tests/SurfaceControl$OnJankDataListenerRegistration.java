// A stand-in for AOSP's class of this name, which calls SurfaceFlinger: it counts its releases.
package android.view;

/** A registration. */
public class SurfaceControl$OnJankDataListenerRegistration {
    /** The compositor's refusal. */
    public static final SurfaceControl$OnJankDataListenerRegistration NONE = new SurfaceControl$OnJankDataListenerRegistration();

    /** Number of calls of {@link #release}. */
    public int released;

    /** Ends the reports. */
    public void release() {
        released++;
    }
}
