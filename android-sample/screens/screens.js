// Copy it into a React Native app: <NavigationContainer {...screens(ref, NativeModules.TraceteeScreens.setScreen)}>, where
// `ref` is the result of createNavigationContainerRef(). ReactScreens.kt receives the screens.

/** Returns the properties of a NavigationContainer that report its innermost route as the screen. */
export function screens(ref, setScreen) {
    let last;
    const report = () => {
        const { name } = ref.getCurrentRoute() ?? {};
        if (name === undefined || name === last) return;
        last = name;
        setScreen(name);
    };
    return { ref, onReady: report, onStateChange: report };
}
