package dev.tracetee.sample

import android.app.Service
import android.content.Intent
import android.os.Binder
import android.os.IBinder
import android.os.Parcel

/** Sleeps when it is called, in its own process. */
class SlowService : Service() {
    private val binder = object : Binder() {
        override fun onTransact(code: Int, data: Parcel, reply: Parcel?, flags: Int): Boolean {
            if (code != SLEEP) return super.onTransact(code, data, reply, flags)
            Thread.sleep(data.readInt().toLong())
            return true
        }
    }

    override fun onBind(intent: Intent?): IBinder = binder

    companion object {
        const val SLEEP = IBinder.FIRST_CALL_TRANSACTION
    }
}
