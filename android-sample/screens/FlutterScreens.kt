// The other end of screens.dart. In FlutterActivity.configureFlutterEngine: reportScreens(flutterEngine)
import dev.tracetee.Tracetee
import io.flutter.embedding.engine.FlutterEngine
import io.flutter.plugin.common.MethodChannel

fun reportScreens(engine: FlutterEngine) = MethodChannel(engine.dartExecutor.binaryMessenger, "dev.tracetee/screens")
    .setMethodCallHandler { call, result ->
        (call.arguments as? String)?.let(Tracetee::setScreen)
        result.success(null)
    }
