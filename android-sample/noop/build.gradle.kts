// The library's API with nothing behind it, for builds that carry no agent. Its settings and its interface of an HTTP
// client are the library's own sources.
plugins {
    alias(libs.plugins.android.library)
}

android {
    namespace = "dev.tracetee.noop"
    compileSdk = 36
    defaultConfig {
        minSdk = 21
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
    sourceSets["main"].kotlin.directories.add("../tracetee/src/api/kotlin")
}

kotlin {
    explicitApi()
}

dependencies {
    implementation(libs.androidx.startup)
}
