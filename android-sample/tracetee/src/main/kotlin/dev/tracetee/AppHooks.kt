package dev.tracetee

import android.app.Activity
import android.app.Application
import android.content.ComponentCallbacks2
import android.content.Context
import android.content.res.Configuration
import android.os.Build
import android.os.Bundle
import android.os.Handler
import android.os.Looper
import java.util.WeakHashMap
import java.util.concurrent.atomic.AtomicBoolean

/**
 * Reports to the agent what it cannot observe itself: the current screen, the display's refresh rate, low
 * memory, and whether the main loop responds. [Tracetee.install] attaches it once; it also schedules uploads.
 */
internal object AppHooks {
    private var application: Application? = null

    /** Attaches to the application. In `attachBaseContext` there is none yet, so it waits for the main loop's first turn. */
    fun attach(context: Context, uploads: Boolean, verdicts: Boolean) = safely("attach to the app") {
        val main = Handler(Looper.getMainLooper())
        // The agent's thread asks once a second; one question waits at a time.
        val isAsked = AtomicBoolean()
        val alive = Runnable {
            isAsked.set(false)
            Native.mainIsAlive()
        }
        Native.watchMain {
            if (!isAsked.getAndSet(true)) main.post(alive)
            AppStart.writeOnce(context)
            StackSampler.startIfWanted(context)
        }
        val register = Runnable {
            safely("attach to the app") {
                val app = context.applicationContext as? Application
                if (app != null && application == null) {
                    application = app
                    app.registerActivityLifecycleCallbacks(screens)
                    app.registerComponentCallbacks(memory)
                    if (uploads) UploadService.schedule(app)
                    Native.setVisible(started > 0)
                    if (verdicts || Native.ledger) FrameWatch.attach(app)
                }
            }
        }
        if (context.applicationContext is Application) register.run() else main.post(register)
    }

    fun detach() = safely("detach from the app") {
        Native.watchMain(null)
        application?.let {
            it.unregisterActivityLifecycleCallbacks(screens)
            it.unregisterComponentCallbacks(memory)
            UploadService.cancel(it)
            FrameWatch.detach(it)
        }
        application = null
    }

    /** Sets the screen, also for when the activity in front next returns to the foreground. */
    @Synchronized
    fun setScreen(name: String) {
        front?.let { named[it] = name }
        Native.setScreen(name)
        Deaths.screen(name, front != null)
    }

    private var front: Activity? = null

    /** Number of visible activities; used only on the main thread. */
    private var started = 0

    /** The last screen that the app has named in each activity. */
    private val named = WeakHashMap<Activity, String>()

    @Synchronized
    private fun show(activity: Activity?) {
        front = activity
        val name = activity?.let { named[it] ?: it.javaClass.simpleName }
        name?.let(Native::setScreen)
        Deaths.screen(name, activity != null)
    }

    private val screens = object : Application.ActivityLifecycleCallbacks {
        override fun onActivityResumed(activity: Activity) = safely("note the screen") {
            show(activity)
            @Suppress("DEPRECATION")
            val display = if (Build.VERSION.SDK_INT >= 30) activity.display else activity.windowManager.defaultDisplay
            display?.refreshRate?.toDouble()?.let {
                Native.setRefreshRate(it)
                FrameWatch.setRefreshRate(it)
            }
        }

        override fun onActivityCreated(activity: Activity, state: Bundle?) = Unit
        override fun onActivityStarted(activity: Activity) = safely("note a start") {
            if (started++ == 0) Native.setVisible(true)
        }

        override fun onActivityPaused(activity: Activity) = show(null)

        // An activity that another one replaces stops after that has started.
        override fun onActivityStopped(activity: Activity) = safely("note a stop") {
            if (--started == 0) Native.setVisible(false)
        }

        override fun onActivitySaveInstanceState(activity: Activity, state: Bundle) = Unit
        override fun onActivityDestroyed(activity: Activity) = Unit
    }

    private val memory = object : ComponentCallbacks2 {
        @Suppress("DEPRECATION")
        override fun onTrimMemory(level: Int) {
            val isLow = level == ComponentCallbacks2.TRIM_MEMORY_RUNNING_LOW ||
                level == ComponentCallbacks2.TRIM_MEMORY_RUNNING_CRITICAL
            DeviceContext.trim(level)
            if (isLow) Native.lowMemory()
        }

        override fun onConfigurationChanged(configuration: Configuration) = Unit

        @Deprecated("Deprecated in the platform")
        override fun onLowMemory() {
            Native.lowMemory()
        }
    }

    private inline fun safely(what: String, call: () -> Unit) {
        try {
            call()
        } catch (error: RuntimeException) {
            warn("cannot $what: $error")
        }
    }
}
