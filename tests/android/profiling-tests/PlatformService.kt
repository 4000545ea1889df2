// Stand-in for the system's profiling service, which AOSP's real ProfilingManager calls through its real interface. It judges
// requests as the module's RateLimiter does, written from its description; with the class RateLimiterOracle on the class path,
// by that.
import android.content.ContextWrapper
import android.os.Bundle
import android.os.IBinder
import android.os.IProfilingResultCallback
import android.os.IProfilingService
import android.os.ProfilingFrameworkInitializer
import android.os.ProfilingManager
import android.os.ProfilingServiceManager
import android.os.ServiceManager
import java.io.File
import java.lang.reflect.Method
import java.lang.reflect.Proxy
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** A request as it comes over the interface. */
class Asked(val type: Int, val parameters: Bundle, val tag: String, val most: Long, val least: Long)

class PlatformService(private val files: File) {
    val asked = LinkedBlockingQueue<Asked>()
    val triggers = sortedMapOf<Int, Int>()

    @Volatile
    private var callback: IProfilingResultCallback? = null

    val isRegistered: Boolean get() = callback != null

    @Volatile
    var isDead = false

    private val service = proxy(IProfilingService::class.java) { method, arguments ->
        if (isDead) throw android.os.DeadObjectException()
        when (method.name) {
            "requestProfiling" -> {
                val (most, least) = arguments.filterIsInstance<Long>()
                // Level 35 has the directory of files before the tag.
                val tag = arguments.filterIsInstance<String>().first { !it.startsWith("/") }
                asked += Asked(arguments[0] as Int, arguments[1] as Bundle, tag, most, least)
            }
            "registerResultsCallback" -> callback = arguments[1] as IProfilingResultCallback
            "addProfilingTriggers" -> (arguments[0] as List<*>).forEach { parcel ->
                fun field(name: String) = parcel!!.javaClass.getField(name).getInt(parcel)
                triggers[field("triggerType")] = field("rateLimitingPeriodHours")
            }
            "removeProfilingTriggers" -> (arguments[0] as IntArray).forEach { triggers.remove(it) }
            "asBinder" -> return@proxy binder
        }
        null
    }

    private val binder: IBinder = proxy(IBinder::class.java) { method, _ -> if (method.name == "queryLocalInterface") service else null }

    /** Puts the service where the platform looks for it. */
    fun register() {
        // Its own function fills it once; each app here has a service of its own.
        val cache = ServiceManager::class.java.getDeclaredField("sCache").apply { isAccessible = true }
        @Suppress("UNCHECKED_CAST")
        (cache.get(null) as MutableMap<String, IBinder>)["profiling_service"] = binder
        if (ProfilingFrameworkInitializer.getProfilingServiceManager() == null) {
            ProfilingFrameworkInitializer.setProfilingServiceManager(ProfilingServiceManager())
        }
    }

    fun nextRequest(): Asked = asked.poll(30, TimeUnit.SECONDS) ?: error("no request came")

    fun file(name: String, content: ByteArray): File = File(files, "profiling/$name").apply {
        parentFile.mkdirs()
        writeBytes(content)
    }

    /** Gives a result as the system does: over the app's callback. */
    fun give(file: File?, tag: String?, error: Int = 0, trigger: Int = 0, most: Long = 1, least: Long = 2) {
        val send = IProfilingResultCallback::class.java.methods.single { it.name == "sendResult" }
        // From level 36 on the manager itself knows where the app's files are.
        val path = if (send.parameterCount == 7) file?.path?.removePrefix(files.path) else file?.path
        val all = listOf<Any?>(path, most, least, error, tag, if (error == 0) null else "the test says so", trigger)
        send.invoke(callback ?: error("nobody has registered"), *all.take(send.parameterCount).toTypedArray())
    }
}

internal fun <T> proxy(type: Class<T>, call: (Method, List<Any?>) -> Any?): T {
    val made = Proxy.newProxyInstance(type.classLoader, arrayOf(type)) { self, method, arguments ->
        when (method.name) {
            "equals" -> self === arguments[0]
            "hashCode" -> System.identityHashCode(self)
            "toString" -> type.simpleName
            else -> call(method, arguments?.toList().orEmpty())
        }
    }
    return type.cast(made)
}

/** A context with the real manager. */
class AppContext(private val files: File) : ContextWrapper(null) {
    private val manager by lazy { ProfilingManager(this) }

    override fun getFilesDir(): File = files

    override fun getPackageName(): String = "com.example.app"

    override fun getSystemServiceName(type: Class<*>): String? = if (type == ProfilingManager::class.java) "profiling" else null

    override fun getSystemService(name: String): Any? = if (name == "profiling") manager else null
}
