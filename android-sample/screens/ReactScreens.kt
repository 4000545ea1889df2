// The other end of screens.js: a native module for a ReactPackage's createNativeModules.
import com.facebook.react.bridge.ReactApplicationContext
import com.facebook.react.bridge.ReactContextBaseJavaModule
import com.facebook.react.bridge.ReactMethod
import dev.tracetee.Tracetee

class ReactScreens(context: ReactApplicationContext) : ReactContextBaseJavaModule(context) {
    override fun getName() = "TraceteeScreens"

    @ReactMethod
    fun setScreen(name: String) = Tracetee.setScreen(name)
}
