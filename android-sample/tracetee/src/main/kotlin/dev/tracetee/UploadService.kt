package dev.tracetee

import android.app.job.JobInfo
import android.app.job.JobParameters
import android.app.job.JobScheduler
import android.app.job.JobService
import android.content.ComponentName
import android.content.Context
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.ThreadFactory
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit

/**
 * Uploads captures as a job of the platform's JobScheduler, once an hour, when the device has a network. The
 * library declares it in its manifest and schedules it; apps do not call it. The remote configuration decides
 * which networks the agent uses.
 */
internal class UploadService : JobService() {
    override fun onStartJob(parameters: JobParameters): Boolean {
        // A process that the system starts for this job has run attachBaseContext, so the app has had its chance to install.
        if (!Tracetee.isInstalled) return false
        worker.execute {
            val result = Tracetee.upload(this)
            platform(0) { android.util.Log.d("tracetee", "upload: $result") }
            jobFinished(parameters, false)
        }
        return true
    }

    /** Asks for another run. The request in progress continues up to its timeout; unsent captures stay in the spool. */
    override fun onStopJob(parameters: JobParameters): Boolean = true

    internal companion object {
        /** Job id, unlikely to be one of the app's own ("trce"). */
        private const val JOB = 0x7472_6365
        private const val EVERY_MS = 60 * 60 * 1000L

        /** One thread while there is work, so that none of it runs on the main thread. */
        private val worker = ThreadPoolExecutor(
            0, 1, 10L, TimeUnit.SECONDS, LinkedBlockingQueue(), ThreadFactory { Thread(it, "tracetee-upload") },
        )

        /** Schedules the job, on a separate thread. */
        fun schedule(context: Context) = withScheduler(context) { scheduler ->
            // Scheduling the job again would restart its hour at each start of the app.
            if (scheduler.allPendingJobs.any { it.id == JOB }) return@withScheduler
            val job = JobInfo.Builder(JOB, ComponentName(context, UploadService::class.java))
                .setRequiredNetworkType(JobInfo.NETWORK_TYPE_ANY)
                .setPeriodic(EVERY_MS)
                .build()
            scheduler.schedule(job)
        }

        /** Cancels the job, after [schedule]. */
        fun cancel(context: Context) = withScheduler(context) { it.cancel(JOB) }

        private fun withScheduler(context: Context, call: (JobScheduler) -> Unit) = worker.execute {
            try {
                (context.getSystemService(Context.JOB_SCHEDULER_SERVICE) as? JobScheduler)?.let(call)
            } catch (error: RuntimeException) {
                warn("cannot use the JobScheduler: $error")
            }
        }
    }
}
