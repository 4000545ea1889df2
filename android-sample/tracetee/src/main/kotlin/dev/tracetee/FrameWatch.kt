// Listens to the platform's verdicts about the frames of an app's activities: FrameMetrics and, from API 36 on, JankData.
package dev.tracetee

import android.app.Activity
import android.app.Application
import android.os.Build
import android.os.Bundle
import android.os.Handler
import android.os.HandlerThread
import android.os.Looper
import android.os.Process
import android.view.FrameMetrics
import android.view.View
import android.view.Window
import java.util.IdentityHashMap

/**
 * Listens while it is attached; [Tracetee.install] attaches it if the app asks for verdicts. Reports come to a thread of its own.
 * Needs API 26; before it no report says which frame it is of.
 */
internal object FrameWatch : Application.ActivityLifecycleCallbacks {
    /** The thread that gets the reports; any thread may attach and detach. */
    private var thread: HandlerThread? = null
    private val windows = IdentityHashMap<Activity, WindowFrames>()

    /** The frames until now; null while nobody listens. */
    @Volatile
    var log: FrameLog? = null
        private set

    /** The display's refresh period, which is the time of a frame where the platform names none (before API 31). */
    @Volatile
    private var periodNs = PERIOD_NS

    /** Only the frames' thread calls it. */
    @Volatile
    private var device: DeviceContext? = null

    @Synchronized
    fun attach(app: Application) {
        if (Build.VERSION.SDK_INT < 26 || thread != null) return
        thread = HandlerThread("tracetee-frames", Process.THREAD_PRIORITY_BACKGROUND).apply { start() }
        log = FrameLog()
        device = DeviceContext(app)
        app.registerActivityLifecycleCallbacks(this)
    }

    @Synchronized
    fun detach(app: Application) {
        app.unregisterActivityLifecycleCallbacks(this)
        val attached = windows.values.toList()
        val reports = thread
        windows.clear()
        thread = null
        log = null
        device = null
        val end = Runnable {
            for (frames in attached) frames.detach()
            reports?.quitSafely()
        }
        // Only the main thread may change views.
        if (Looper.myLooper() == Looper.getMainLooper()) end.run() else Handler(Looper.getMainLooper()).post(end)
    }

    /** Adds a report to the frames until now, and the device's state to the capture that [isRecording]. */
    fun keep(frame: FrameRecord, isRecording: Boolean) {
        log?.add(frame, periodNs)
        device?.writeIfDue(isRecording, Math.round(1e11 / periodNs) / 100.0)
    }

    fun setRefreshRate(hz: Double) {
        if (hz > 1) periodNs = (1e9 / hz).toLong()
    }

    private const val PERIOD_NS = 16_666_667L

    /** Attaches here because the app has chosen the window's features by now, which it cannot once there is a decor view. */
    @Synchronized
    override fun onActivityStarted(activity: Activity) {
        if (Build.VERSION.SDK_INT < 26 || activity in windows) return
        val looper = thread?.looper ?: return
        platform(Unit) { windows[activity] = WindowFrames(activity.window, Handler(looper)).apply { attach() } }
    }

    @Synchronized
    override fun onActivityDestroyed(activity: Activity) {
        platform(Unit) { windows.remove(activity)?.detach() }
    }

    override fun onActivityCreated(activity: Activity, state: Bundle?) = Unit
    override fun onActivityResumed(activity: Activity) = Unit
    override fun onActivityPaused(activity: Activity) = Unit
    override fun onActivityStopped(activity: Activity) = Unit
    override fun onActivitySaveInstanceState(activity: Activity, state: Bundle) = Unit
}

/** The frames of one window; needs API 26. The main thread attaches and detaches it, [handler]'s thread gets the reports. */
internal class WindowFrames(
    private val window: Window,
    private val handler: Handler,
    private val sink: FrameSink = FrameSink(),
) : Window.OnFrameMetricsAvailableListener, View.OnAttachStateChangeListener {
    @Volatile
    private var isAttached = false
    private var jank: JankListener? = null

    fun attach() {
        isAttached = true
        window.addOnFrameMetricsAvailableListener(this, handler)
        val decor = window.decorView
        decor.addOnAttachStateChangeListener(this)
        if (decor.isAttachedToWindow) onViewAttachedToWindow(decor)
    }

    /** Reports that are under way are dropped from now on. */
    fun detach() {
        isAttached = false
        platform(Unit) { window.removeOnFrameMetricsAvailableListener(this) }
        platform(Unit) { window.decorView.removeOnAttachStateChangeListener(this) }
        stopJank()
    }

    override fun onFrameMetricsAvailable(window: Window, metrics: FrameMetrics, dropped: Int) {
        if (isAttached) sink.metrics(metrics, dropped)
    }

    // There is a compositor's surface only while the view is attached.
    override fun onViewAttachedToWindow(view: View) {
        if (Build.VERSION.SDK_INT < 36 || jank != null) return
        val control = platform(null) { view.rootSurfaceControl } ?: return
        jank = JankListener.register(control, handler::post) { if (isAttached) sink.jank(it) }
    }

    override fun onViewDetachedFromWindow(view: View) = stopJank()

    private fun stopJank() {
        jank?.release()
        jank = null
    }
}

/** Takes reports, on one thread, and records them while something records. Throws nothing: the thread is the platform's, too. */
internal open class FrameSink(protected val clock: BootTime = BootTime(), private val api: Int = Build.VERSION.SDK_INT) {
    private val frame = FrameRecord()

    fun metrics(metrics: FrameMetrics, dropped: Int) = platform(Unit) { take(frame.take(metrics, dropped, api)) }

    /** Takes a `SurfaceControl.JankData`; [JankListener] keeps exceptions back. */
    fun jank(data: JankListener.Data) = take(frame.take(data.vsync, data.jank, data.allowedNs, data.totalNs))

    protected open fun take(frame: FrameRecord) {
        val isRecording = Tracetee.isRecording
        FrameWatch.keep(frame, isRecording)
        // Before API 26 nothing says which frame it is.
        val isKnown = frame.totalNs > 0 && (frame.jank >= 0 || frame.intendedNs >= 0)
        if (isKnown && isRecording) frame.write(clock)
    }
}
