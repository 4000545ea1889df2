// Versions of the plugins that the modules apply. Kotlin is built into the Android plugin since 9.0; naming its
// plugin here makes it this version.
plugins {
    alias(libs.plugins.android.application) apply false
    alias(libs.plugins.android.library) apply false
    alias(libs.plugins.kotlin.jvm) apply false
}

// An app that includes this build depends on dev.tracetee:tracetee and dev.tracetee:coroutines.
subprojects {
    group = "dev.tracetee"
    version = "0.1.0"
}
