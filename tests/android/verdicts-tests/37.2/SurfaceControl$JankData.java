// A stand-in for the class of this name of API 37.2, which no repository has: with the two methods that its reference documents.
package android.view;

/** The compositor's verdict about a frame. */
public class SurfaceControl$JankData {
    private final long vsyncId;
    private final int jankType;
    private final long frameIntervalNs;
    private final long scheduledNs;
    private final long actualNs;
    private final long presentNs;
    private final long desiredNs;

    public SurfaceControl$JankData(
            long vsyncId, int jankType, long frameIntervalNs, long scheduledNs, long actualNs, long presentNs, long desiredNs) {
        this.vsyncId = vsyncId;
        this.jankType = jankType;
        this.frameIntervalNs = frameIntervalNs;
        this.scheduledNs = scheduledNs;
        this.actualNs = actualNs;
        this.presentNs = presentNs;
        this.desiredNs = desiredNs;
    }

    public long getVsyncId() {
        return vsyncId;
    }

    public int getJankType() {
        return jankType;
    }

    public long getFrameIntervalNanos() {
        return frameIntervalNs;
    }

    public long getScheduledAppFrameTimeNanos() {
        return scheduledNs;
    }

    public long getActualAppFrameTimeNanos() {
        return actualNs;
    }

    public long getPresentTimeNanos() {
        return presentNs;
    }

    public long getDesiredPresentTimeNanos() {
        return desiredNs;
    }
}
