// The adapters of Navigation and of fragments, on AndroidX's own classes.
import android.os.Bundle
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.FrameLayout
import androidx.fragment.app.Fragment
import androidx.fragment.app.FragmentActivity
import androidx.navigation.NavController
import androidx.navigation.NavDestination
import androidx.navigation.NavGraph
import androidx.navigation.NavGraphNavigator
import androidx.navigation.Navigator
import dev.tracetee.Tracetee
import org.junit.Assert.assertEquals
import org.junit.Before
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [34], manifest = Config.NONE)
class ScreensTest {
    @Before
    fun clear() = Tracetee.screens.clear()

    @Test
    fun destinationsAreReportedWithoutTheirArguments() {
        val controller = NavController(RuntimeEnvironment.getApplication())
        val pages = Pages().also { controller.navigatorProvider.addNavigator(it) }
        controller.reportScreens()
        fun page(route: String?, label: String? = null) = NavDestination(pages).apply {
            if (route != null) this.route = route else id = 7
            this.label = label
        }
        controller.graph = NavGraph(controller.navigatorProvider.getNavigator(NavGraphNavigator::class.java)).apply {
            addDestinations(page("home"), page("product/{id}"), page(null, "Settings"))
            setStartDestination("home")
        }
        controller.navigate("product/12345678")
        controller.popBackStack()
        controller.navigate(7)
        assertEquals(listOf("home", "product/{id}", "home", "Settings"), Tracetee.screens)
    }

    @Test
    fun fragmentsWithAViewAreReportedEachTimeTheyComeToTheFront() {
        val activity = Robolectric.buildActivity(Host::class.java).setup()
        val fragments = activity.get().supportFragmentManager
        fragments.beginTransaction().add(Worker(), "worker").add(1, Feed()).commitNow()
        fragments.beginTransaction().replace(1, Product()).addToBackStack(null).commit()
        fragments.executePendingTransactions()
        fragments.popBackStackImmediate()
        activity.pause().resume()
        assertEquals(listOf("Feed", "Product", "Feed", "Feed"), Tracetee.screens)
    }
}

@Navigator.Name("page")
class Pages : Navigator<NavDestination>() {
    override fun createDestination() = NavDestination(this)
}

class Host : FragmentActivity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        supportFragmentManager.registerFragmentLifecycleCallbacks(FragmentScreens, false)
        super.onCreate(savedInstanceState)
        setContentView(FrameLayout(this).apply { id = 1 })
    }
}

open class Page : Fragment() {
    override fun onCreateView(inflater: LayoutInflater, container: ViewGroup?, savedInstanceState: Bundle?): View = View(activity)
}

class Feed : Page()

class Product : Page()

class Worker : Fragment()
