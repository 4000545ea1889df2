package dev.tracetee.sample

import android.content.Context
import android.os.IBinder
import android.os.Parcel
import android.os.RemoteException
import android.view.LayoutInflater
import android.view.ViewGroup
import android.widget.TextView
import dev.tracetee.trace
import java.io.File
import java.util.concurrent.CountDownLatch
import kotlin.concurrent.thread

/** Each delays the main thread in a different way, which the trace shows. */
object Janks {
    /** Waits for another process. */
    fun binder(service: IBinder?) = trace("binder") {
        val data = Parcel.obtain()
        val reply = Parcel.obtain()
        try {
            data.writeInt(200)
            service?.transact(SlowService.SLEEP, data, reply, 0)
        } catch (_: RemoteException) {
            // The service's process is gone; the next button has a new one.
        } finally {
            data.recycle()
            reply.recycle()
        }
    }

    /** Inflates views from XML; the platform's section is "inflate". */
    fun inflate(context: Context, into: ViewGroup) = trace("inflate 300 rows") {
        into.removeAllViews()
        val inflater = LayoutInflater.from(context)
        for (i in 0 until 300) {
            val row = inflater.inflate(R.layout.row, into, false)
            row.findViewById<TextView>(R.id.text)?.text = i.toString()
            into.addView(row)
        }
    }

    private val lock = Any()

    /** Waits for a lock that another thread holds; the platform's section is "monitor contention". */
    fun lock() = trace("lock") {
        val held = CountDownLatch(1)
        thread(name = "holder") {
            synchronized(lock) {
                held.countDown()
                Thread.sleep(200)
            }
        }
        held.await()
        synchronized(lock) { }
    }

    /** Fills the heap, so that allocations wait for the collector. */
    fun garbage() = trace("garbage") {
        val kept = ArrayDeque<ByteArray>()
        repeat(2_000) {
            kept.addLast(ByteArray(100_000))
            if (kept.size > 100) kept.removeFirst()
        }
    }

    /** Writes to the disk and waits until the data is synced. */
    fun disk(directory: File) = trace("disk") {
        val file = File(directory, "jank")
        repeat(20) {
            file.outputStream().use { out ->
                out.write(ByteArray(500_000))
                out.fd.sync()
            }
        }
        file.delete()
    }
}
