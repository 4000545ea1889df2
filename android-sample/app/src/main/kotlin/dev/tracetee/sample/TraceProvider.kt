package dev.tracetee.sample

import android.content.ContentProvider
import android.content.ContentValues
import android.database.Cursor
import android.database.MatrixCursor
import android.net.Uri
import android.os.ParcelFileDescriptor
import android.provider.OpenableColumns
import java.io.File
import java.io.FileNotFoundException

/** Lets the app with which the user shares a trace read that one file. */
class TraceProvider : ContentProvider() {
    override fun onCreate() = true

    private fun file(uri: Uri): File {
        val ready = File(context!!.noBackupFilesDir, "tracetee/spool/ready")
        val name = uri.lastPathSegment ?: throw FileNotFoundException(uri.toString())
        // A name, not a path.
        return ready.listFiles()?.firstOrNull { it.name == name } ?: throw FileNotFoundException(uri.toString())
    }

    override fun openFile(uri: Uri, mode: String): ParcelFileDescriptor =
        ParcelFileDescriptor.open(file(uri), ParcelFileDescriptor.MODE_READ_ONLY)

    override fun query(uri: Uri, projection: Array<out String>?, selection: String?, arguments: Array<out String>?, order: String?): Cursor {
        val file = file(uri)
        val columns = arrayOf(OpenableColumns.DISPLAY_NAME, OpenableColumns.SIZE)
        return MatrixCursor(columns).apply { addRow(arrayOf<Any>(file.name, file.length())) }
    }

    override fun getType(uri: Uri) = "application/octet-stream"
    override fun insert(uri: Uri, values: ContentValues?): Uri? = null
    override fun delete(uri: Uri, selection: String?, arguments: Array<out String>?) = 0
    override fun update(uri: Uri, values: ContentValues?, selection: String?, arguments: Array<out String>?) = 0
}
