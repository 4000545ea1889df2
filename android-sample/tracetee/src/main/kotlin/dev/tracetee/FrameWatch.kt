// Listens to the platform's verdicts about the frames of an app's activities: JankData (API 36) and FrameMetrics (26), and
// deadlines before a frame ends (33).
package dev.tracetee

import android.app.Activity
import android.app.Application
import android.os.Build
import android.os.Bundle
import android.os.Handler
import android.os.HandlerThread
import android.os.Looper
import android.os.Process
import android.view.AttachedSurfaceControl
import android.view.Choreographer
import android.view.FrameMetrics
import android.view.SurfaceHolder
import android.view.SurfaceView
import android.view.View
import android.view.ViewGroup
import android.view.ViewTreeObserver
import android.view.Window
import java.util.IdentityHashMap

/**
 * Observes frames while it is attached; [Tracetee.install] attaches it if the app requests verdicts. Reports are delivered
 * on a separate thread. Needs API 26; before that, reports do not identify their frame.
 */
internal object FrameWatch : Application.ActivityLifecycleCallbacks {
    /** The thread that gets the reports; any thread may attach and detach. */
    private var thread: HandlerThread? = null
    private val windows = IdentityHashMap<Activity, WindowFrames>()

    /** The frames so far; null while there is no listener. */
    @Volatile
    var log: FrameLog? = null
        private set

    /** Only the frames' thread calls it; null while there is no listener. */
    @Volatile
    private var ledger: FrameLedger? = null

    /** The display's refresh period, which is the time of a frame where the platform names none (before API 31). */
    @Volatile
    private var periodNs = PERIOD_NS

    /** Only the frames' thread calls it. */
    @Volatile
    private var device: DeviceContext? = null

    /** Only the main thread uses it. */
    private var deadlines: Deadlines? = null

    @Synchronized
    fun attach(app: Application) {
        if (Build.VERSION.SDK_INT < 26 || thread != null) return
        val reports = HandlerThread("tracetee-frames", Process.THREAD_PRIORITY_BACKGROUND).apply { start() }
        val handler = Handler(reports.looper)
        thread = reports
        log = FrameLog()
        ledger = FrameLedger { task, ms -> handler.postDelayed(task, ms) }
        device = DeviceContext(app)
        deadlines = if (Build.VERSION.SDK_INT >= 33) Deadlines() else null
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
        ledger = null
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
        ledger?.add(frame, periodNs)
        if (frame.intendedNs > 0) Deaths.vsyncNs = frame.intendedNs
        device?.writeIfDue(isRecording, Math.round(1e11 / periodNs) / 100.0)
    }

    fun setRefreshRate(hz: Double) {
        if (hz > 1) periodNs = (1e9 / hz).toLong()
    }

    private const val PERIOD_NS = 16_666_667L

    /** Attaches here because the app has now chosen the window's features, which is impossible once a decor view exists. */
    @Synchronized
    override fun onActivityStarted(activity: Activity) {
        if (Build.VERSION.SDK_INT < 26) return
        // A window in the background loses its surface.
        windows[activity]?.let { return it.release() }
        val looper = thread?.looper ?: return
        platform(Unit) { windows[activity] = WindowFrames(activity.window, Handler(looper), deadlines).apply { attach() } }
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
    private val deadlines: Deadlines?,
    private val sink: FrameSink = FrameSink(),
) : Window.OnFrameMetricsAvailableListener, View.OnAttachStateChangeListener, ViewTreeObserver.OnDrawListener {
    @Volatile
    private var isAttached = false
    private var jank: JankListener? = null
    private var isJankDue = true
    private var surfaces = emptyList<SurfaceFrames>()

    fun attach() {
        isAttached = true
        window.addOnFrameMetricsAvailableListener(this, handler)
        val decor = window.decorView
        decor.addOnAttachStateChangeListener(this)
        if (decor.isAttachedToWindow) onViewAttachedToWindow(decor)
    }

    /** Reports in transit are dropped from now on. */
    fun detach() {
        isAttached = false
        platform(Unit) { window.removeOnFrameMetricsAvailableListener(this) }
        platform(Unit) {
            window.decorView.removeOnAttachStateChangeListener(this)
            onViewDetachedFromWindow(window.decorView)
        }
    }

    override fun onFrameMetricsAvailable(window: Window, metrics: FrameMetrics, dropped: Int) {
        if (isAttached) sink.metrics(metrics, dropped)
    }

    // There are surfaces of the compositor, and an observer that stays, only while the view is attached.
    override fun onViewAttachedToWindow(view: View) {
        val api = Build.VERSION.SDK_INT
        deadlines?.let { platform(Unit) { view.viewTreeObserver.addOnDrawListener(it) } }
        if (api >= 36) platform(Unit) { view.viewTreeObserver.addOnDrawListener(this) }
        if (api >= 37 && surfaces.isEmpty()) {
            surfaces = platform(emptyList()) { surfaceViews(view).map { SurfaceFrames(it) { listen(SurfaceView::class.java, it, true) } } }
            for (surface in surfaces) surface.attach()
        }
    }

    // An attached view has no surface until its first frame. A registration without a surface succeeds, but reports nothing.
    override fun onDraw() {
        if (!isJankDue) return
        isJankDue = false
        jank = platform(null) { window.decorView.rootSurfaceControl }?.let { listen(AttachedSurfaceControl::class.java, it, false) }
    }

    private fun listen(type: Class<*>, surface: Any, isSurface: Boolean): JankListener? =
        JankListener.register(type, surface, handler::post) { sink.jank(it, isSurface) }

    override fun onViewDetachedFromWindow(view: View) {
        deadlines?.let { platform(Unit) { view.viewTreeObserver.removeOnDrawListener(it) } }
        platform(Unit) { view.viewTreeObserver.removeOnDrawListener(this) }
        release()
        for (surface in surfaces) surface.detach()
        surfaces = emptyList()
    }

    /** Ends the compositor's reports about the window's surface. The next frame requests reports about its surface at that time. */
    fun release() {
        jank?.release()
        jank = null
        isJankDue = true
    }

    private companion object {
        /** Only a part of a larger tree is checked. */
        const val MOST_VIEWS = 2000

        /** Finds the surfaces of engines and videos among the views. */
        fun surfaceViews(root: View): List<SurfaceView> {
            val views = arrayListOf(root)
            var next = 0
            while (next < views.size && next < MOST_VIEWS) {
                val view = views[next++] as? ViewGroup ?: continue
                for (place in 0 until view.childCount) views.add(view.getChildAt(place))
            }
            return views.filterIsInstance<SurfaceView>()
        }
    }
}

/** The frames of a surface without a window, such as Flutter's or a game's; needs API 37.2. [listen] registers while the surface exists. */
internal class SurfaceFrames(private val view: SurfaceView, private val listen: (SurfaceView) -> JankListener?) : SurfaceHolder.Callback {
    private var jank: JankListener? = null

    fun attach() = platform(Unit) {
        view.holder.addCallback(this)
        if (view.holder.surface?.isValid == true) surfaceCreated(view.holder)
    }

    fun detach() {
        platform(Unit) { view.holder.removeCallback(this) }
        release()
    }

    private fun release() {
        jank?.release()
        jank = null
    }

    override fun surfaceCreated(holder: SurfaceHolder) {
        if (jank == null) jank = listen(view)
    }

    override fun surfaceChanged(holder: SurfaceHolder, format: Int, width: Int, height: Int) = Unit

    override fun surfaceDestroyed(holder: SurfaceHolder) = release()
}

/**
 * Writes the deadline of a frame on the main thread while the frame is in progress, so that a frame that never ends has one;
 * needs API 33. A callback asks for a vsync. So it is posted only while a frame is drawn and a capture records: the next
 * vsync mostly comes anyway, and the first frame of a row has no deadline. After the last frame one more vsync arrives; a
 * record says that nothing was drawn for it, and reports do not count it as a frame.
 */
internal class Deadlines(
    private val sink: FrameSink = FrameSink(),
    private val isRecording: () -> Boolean = Native::recording,
) : ViewTreeObserver.OnDrawListener, Choreographer.VsyncCallback {
    private val main = Handler(Looper.getMainLooper())
    private var isPosted = false

    /** The frame that has begun, and whether a window has drawn since. */
    private var vsync = -1L
    private var isDrawn = false
    private val end = Runnable { if (!isDrawn) sink.undrawn(vsync) }

    override fun onDraw() {
        isDrawn = true
        if (isPosted || !isRecording()) return
        isPosted = platform(false) {
            Choreographer.getInstance().postVsyncCallback(this)
            true
        }
    }

    override fun onVsync(data: Choreographer.FrameData) {
        isPosted = false
        isDrawn = false
        vsync = sink.deadline(data)
        // Runs as soon as the frame has been made.
        main.postAtFrontOfQueue(end)
    }
}

/** Takes reports, on one thread, and records them while something records. Throws nothing: the thread is the platform's, too. */
internal open class FrameSink(protected val clock: BootTime = BootTime(), private val api: Int = Build.VERSION.SDK_INT) {
    private val frame = FrameRecord()

    fun metrics(metrics: FrameMetrics, dropped: Int) = platform(Unit) { take(frame.take(metrics, dropped, api)) }

    /** Takes a `SurfaceControl.JankData`; [JankListener] keeps exceptions back. */
    fun jank(data: JankListener.Data, isSurface: Boolean) = take(frame.take(data, isSurface))

    /** Takes the deadline of a frame that has begun. Returns the frame's vsync, -1 if it is unknown. */
    fun deadline(begun: Choreographer.FrameData): Long = platform(-1) {
        write(frame.take(begun))
        frame.vsync
    }

    /** Takes the vsync of a frame that a callback for deadlines had asked for, and in which nothing was drawn. */
    fun undrawn(vsync: Long) = platform(Unit) { write(frame.takeUndrawn(vsync)) }

    private fun take(frame: FrameRecord) {
        FrameWatch.keep(frame, Tracetee.isRecording)
        // Before API 26, nothing identifies the frame.
        if (frame.totalNs > 0 && (frame.jank >= 0 || frame.intendedNs >= 0)) write(frame)
    }

    protected open fun write(frame: FrameRecord) {
        if (Tracetee.isRecording) frame.write(clock)
    }
}
