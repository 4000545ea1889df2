// Stand-in for the system's activity service, which AOSP's real ActivityManager calls through its real interface.
import android.app.ActivityManager
import android.app.ApplicationStartInfo
import android.app.IActivityManager
import android.app.IApplicationStartInfoCompleteListener
import android.content.Context
import android.content.ContextWrapper
import android.content.pm.ParceledListSlice
import android.os.Handler
import android.os.IBinder
import android.os.ServiceManager
import java.util.concurrent.LinkedBlockingQueue

private const val MS = 1_000_000L

class ActivityService {
    val listeners = LinkedBlockingQueue<IApplicationStartInfoCompleteListener>()

    /** Times that the app has asked for its last start. */
    @Volatile
    var looks = 0
        private set

    @Volatile
    var isFullyDrawn = false

    private val service = object : IActivityManager.Default() {
        override fun addApplicationStartInfoCompleteListener(listener: IApplicationStartInfoCompleteListener, user: Int) {
            listeners += listener
        }

        override fun getHistoricalProcessStartReasons(name: String?, most: Int, user: Int): ParceledListSlice<ApplicationStartInfo> {
            looks++
            return ParceledListSlice(listOf(start()))
        }
    }

    private val binder: IBinder = proxy(IBinder::class.java) { method, _ -> if (method.name == "queryLocalInterface") service else null }

    /** Tells a listener what is known when the first frame is drawn. */
    fun tell(listener: IApplicationStartInfoCompleteListener) = listener.onApplicationStartInfoComplete(start())

    private fun start() = ApplicationStartInfo().apply {
        pid = 4711
        reason = ApplicationStartInfo.START_REASON_LAUNCHER
        startType = ApplicationStartInfo.START_TYPE_COLD
        addStartupTimestamp(ApplicationStartInfo.START_TIMESTAMP_LAUNCH, 100 * MS)
        addStartupTimestamp(ApplicationStartInfo.START_TIMESTAMP_FIRST_FRAME, 600 * MS)
        if (isFullyDrawn) addStartupTimestamp(ApplicationStartInfo.START_TIMESTAMP_FULLY_DRAWN, 900 * MS)
    }

    /** Returns a context whose activity manager calls this service. */
    fun context(): Context {
        val cache = ServiceManager::class.java.getDeclaredField("sCache").apply { isAccessible = true }
        @Suppress("UNCHECKED_CAST")
        (cache.get(null) as MutableMap<String, IBinder>)[Context.ACTIVITY_SERVICE] = binder
        return object : ContextWrapper(null) {
            private val manager = ActivityManager::class.java.getDeclaredConstructor(Context::class.java, Handler::class.java)
                .apply { isAccessible = true }.newInstance(this, null)

            override fun getUserId(): Int = 0
            override fun getSystemService(name: String): Any? = if (name == Context.ACTIVITY_SERVICE) manager else null
        }
    }
}
