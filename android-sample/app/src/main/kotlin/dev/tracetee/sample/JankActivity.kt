package dev.tracetee.sample

import android.app.Activity
import android.content.ComponentName
import android.content.Context
import android.content.Intent
import android.content.ServiceConnection
import android.net.Uri
import android.os.Build
import android.os.Bundle
import android.os.IBinder
import android.widget.Button
import android.widget.LinearLayout
import android.widget.ScrollView
import android.widget.TextView
import android.widget.Toast
import dev.tracetee.JankHook
import dev.tracetee.Tracetee
import dev.tracetee.coroutines.launch
import dev.tracetee.coroutines.tracing
import java.io.File
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel

/** One button for each kind of jank, and for each action on a trace. */
class JankActivity : Activity() {
    private val scope = CoroutineScope(SupervisorJob() + Dispatchers.Main + tracing())
    internal lateinit var status: TextView
    private lateinit var rows: LinearLayout
    private var slow: IBinder? = null
    private var jank: JankHook? = null

    private val connection = object : ServiceConnection {
        override fun onServiceConnected(name: ComponentName, service: IBinder) {
            slow = service
        }

        override fun onServiceDisconnected(name: ComponentName) {
            slow = null
        }
    }

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        status = TextView(this)
        rows = LinearLayout(this).apply { orientation = LinearLayout.VERTICAL }
        val list = LinearLayout(this).apply { orientation = LinearLayout.VERTICAL }
        list.addView(status)
        fun button(text: Int, act: () -> Unit) =
            list.addView(Button(this).apply { setText(text); setOnClickListener { act() } })
        button(R.string.start) { start() }
        button(R.string.stop) { stop() }
        button(R.string.share) { share() }
        button(R.string.health) { show(Tracetee.health()?.json ?: getString(R.string.nothing)) }
        button(R.string.jank_binder) { Janks.binder(slow) }
        button(R.string.jank_inflate) { Janks.inflate(this, rows) }
        button(R.string.jank_lock) { Janks.lock() }
        button(R.string.jank_gc) { Janks.garbage() }
        button(R.string.jank_disk) { Janks.disk(cacheDir) }
        list.addView(TextView(this).apply { setText(R.string.coroutines) })
        for (name in Experiments.names) list.addView(Button(this).apply { text = name; setOnClickListener { experiment(name) } })
        list.addView(rows)
        setContentView(ScrollView(this).apply { addView(list) })
        if (Build.VERSION.SDK_INT >= 23) jank = JankHook.attach(window, overMs = 100)
        DeviceTest.Work.activity = this
        bindService(Intent(this, SlowService::class.java), connection, Context.BIND_AUTO_CREATE)
    }

    override fun onDestroy() {
        jank?.isTracking = false
        DeviceTest.Work.activity = null
        unbindService(connection)
        scope.cancel()
        super.onDestroy()
    }

    private fun start() = show(Tracetee.openWindow("hand").error ?: getString(R.string.recording))

    private fun stop() {
        Tracetee.closeWindow("hand").error?.let(::show)
    }

    /** The newest capture that waits in the spool: `.ftrace.zst`, which Perfetto opens once it is unpacked. */
    private fun share() {
        val newest = File(noBackupFilesDir, "tracetee/spool/ready").listFiles()?.maxByOrNull { it.lastModified() }
        if (newest == null) {
            show(getString(R.string.nothing))
            return
        }
        show(getString(R.string.stopped, newest.name, newest.length() / 1024))
        val send = Intent(Intent.ACTION_SEND)
            .setType("application/octet-stream")
            .putExtra(Intent.EXTRA_STREAM, Uri.parse("content://$packageName.traces/${Uri.encode(newest.name)}"))
            .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION)
        startActivity(Intent.createChooser(send, getString(R.string.share)))
    }

    private fun experiment(name: String) {
        scope.launch("experiment") { Experiments.run(name); show(name) }
    }

    private fun show(text: String) {
        status.text = text
        Toast.makeText(this, text.take(100), Toast.LENGTH_SHORT).show()
    }
}
