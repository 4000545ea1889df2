// Names the library's internals. No app can: tests/android/consumers expects the compiler to refuse each function here.

fun native() = dev.tracetee.Native.isLoaded
fun instrumented() = dev.tracetee.MethodTrace.end()
fun job() = dev.tracetee.UploadService()
fun screens() = dev.tracetee.AppHooks.detach()
fun report() = dev.tracetee.HealthReport(null, false, "{}")
fun result() = dev.tracetee.UploadResult.Failed("")
fun request() = dev.tracetee.SenderRequest("GET", "", emptyMap(), null, 1, 1)
fun options() = dev.tracetee.CaptureOptions.Builder().mode
fun section() = dev.tracetee.coroutines.begin("")
