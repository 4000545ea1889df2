package dev.tracetee.sample

import android.app.Application
import android.content.Context
import dev.tracetee.Tracetee
import dev.tracetee.TraceteeConfig
import dev.tracetee.coroutines.CoroutineTracing

/** Installs the agent as early as an app can. */
class SampleApp : Application() {
    override fun attachBaseContext(base: Context) {
        super.attachBaseContext(base)
        val port = DeviceTest.port(base)
        if (port == 0) return
        CoroutineTracing.isEnabled = true
        val config = TraceteeConfig.Builder()
        if (port == null) config.setRemoteConfig(CONFIG) else config.setCollectorUrl("http://127.0.0.1:$port")
        Tracetee.install(base, config.setScheduleUploads(port == null).build())
    }

    private companion object {
        /** Captures each start of the app, the five seconds before a janky frame, and manually from the screen. */
        const val CONFIG = """{
            "schema": 1, "seq": 1,
            "budget": {"captures_per_hour": 30, "captures_per_day": 200},
            "windows": [
                {"id": "start", "opens": "app_start", "max_s": 5},
                {"id": "hand", "opens": "manual", "max_s": 60},
                {"id": "jank", "cool_down_s": 10,
                 "opens": {"triggers": {"any": [{"jank": {"over_ms": 100}}, {"custom": {"name": "jankstats"}}],
                                        "before_s": 5, "after_s": 1}}}]
        }"""
    }
}
