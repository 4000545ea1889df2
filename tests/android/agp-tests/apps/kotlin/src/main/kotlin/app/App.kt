package app

import android.app.Application
import android.content.Context
import dev.tracetee.Tracetee
import dev.tracetee.TraceteeConfig
import dev.tracetee.coroutines.traceCoroutine
import dev.tracetee.coroutines.tracing
import dev.tracetee.trace
import kotlinx.coroutines.runBlocking

class App : Application() {
    override fun attachBaseContext(base: Context) {
        super.attachBaseContext(base)
        Tracetee.install(base, TraceteeConfig.Builder().setCollectorUrl("http://127.0.0.1:8440").build())
        trace("sum") { Tracetee.setScreen("sum ${sum(base.hashCode())}") }
        runBlocking(tracing()) { traceCoroutine("sum") { sum(3) } }
    }

    private fun sum(n: Int): Int = if (n <= 0) 0 else n + sum(n / 2)
}
