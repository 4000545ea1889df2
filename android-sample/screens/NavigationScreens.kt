// Copy it into an app that uses androidx.navigation, of Compose or of fragments.
import androidx.navigation.NavController
import dev.tracetee.Tracetee

/** Reports the destinations as screens: by the pattern of their route, as `product/{id}`, or else by their label. */
fun NavController.reportScreens() = addOnDestinationChangedListener { _, destination, _ ->
    (destination.route ?: destination.label)?.let { Tracetee.setScreen(it.toString()) }
}
