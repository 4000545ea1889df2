// Coroutine tracing, over the library's markers.
plugins {
    alias(libs.plugins.android.library)
}

android {
    namespace = "dev.tracetee.coroutines"
    compileSdk = 36
    defaultConfig {
        minSdk = 21
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
    testOptions.unitTests.all { it.useJUnitPlatform() }
}

kotlin {
    explicitApi()
}

dependencies {
    api(project(":tracetee"))
    api(libs.kotlinx.coroutines.core)
    testImplementation(libs.junit.jupiter)
}
