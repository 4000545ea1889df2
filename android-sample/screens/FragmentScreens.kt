// Copy it into an app that changes fragments by itself, without androidx.navigation.
import androidx.fragment.app.Fragment
import androidx.fragment.app.FragmentManager
import dev.tracetee.Tracetee

/**
 * Reports each fragment with a view that comes to the front as a screen. In an activity's `onCreate`, before `super`:
 * `supportFragmentManager.registerFragmentLifecycleCallbacks(FragmentScreens, false)`; with `true` also nested fragments.
 */
object FragmentScreens : FragmentManager.FragmentLifecycleCallbacks() {
    override fun onFragmentResumed(manager: FragmentManager, fragment: Fragment) {
        if (fragment.view != null) Tracetee.setScreen(fragment.javaClass.simpleName)
    }
}
