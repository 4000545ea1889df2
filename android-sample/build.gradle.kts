// Versions of the plugins that the modules apply. Kotlin is built into the Android plugin since 9.0.
plugins {
    alias(libs.plugins.android.application) apply false
    alias(libs.plugins.android.library) apply false
    alias(libs.plugins.kotlin.jvm) apply false
}
