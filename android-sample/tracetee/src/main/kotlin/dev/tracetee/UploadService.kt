package dev.tracetee

import android.app.job.JobInfo
import android.app.job.JobParameters
import android.app.job.JobScheduler
import android.app.job.JobService
import android.content.ComponentName
import android.content.Context
import android.util.Log
import java.util.concurrent.Executors

/**
 * Sends captures when the device has a network: the platform's JobScheduler, on which WorkManager stands too,
 * so that an app need not bring that. What the network may cost is the agent's own policy.
 */
class UploadService : JobService() {
    override fun onStartJob(parameters: JobParameters): Boolean {
        // In a process that was started for this job the app has installed the agent in attachBaseContext.
        if (!Tracetee.isInstalled) return false
        worker.execute {
            val report = Tracetee.upload(this)
            Log.d("tracetee", "upload: $report")
            jobFinished(parameters, false)
        }
        return true
    }

    /** The agent goes on with the request under way, up to its timeout; what was not sent stays. */
    override fun onStopJob(parameters: JobParameters): Boolean = true

    companion object {
        /** Any app's own jobs have other numbers. */
        private const val JOB = 0x7472_6365
        private const val EVERY_MS = 60 * 60 * 1000L
        private val worker = Executors.newSingleThreadExecutor { task -> Thread(task, "tracetee-upload") }

        internal fun schedule(context: Context) {
            val scheduler = context.getSystemService(Context.JOB_SCHEDULER_SERVICE) as? JobScheduler ?: return
            // Scheduling it anew would begin its hour anew, with each start of the app.
            if (scheduler.allPendingJobs.any { it.id == JOB }) return
            val job = JobInfo.Builder(JOB, ComponentName(context, UploadService::class.java))
                .setRequiredNetworkType(JobInfo.NETWORK_TYPE_ANY)
                .setPeriodic(EVERY_MS)
                .build()
            scheduler.schedule(job)
        }

        internal fun cancel(context: Context) {
            (context.getSystemService(Context.JOB_SCHEDULER_SERVICE) as? JobScheduler)?.cancel(JOB)
        }
    }
}
