// The sample app: a screen that janks on demand, and a trace of it to share.
plugins {
    alias(libs.plugins.android.application)
    // Of the included build.
    id("dev.tracetee.instrument")
}

android {
    namespace = "dev.tracetee.sample"
    compileSdk = 36
    defaultConfig {
        applicationId = "dev.tracetee.sample"
        minSdk = 21
        targetSdk = 36
        versionCode = 1
        versionName = "1.0"
    }
    buildTypes {
        release {
            isMinifyEnabled = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"))
            signingConfig = signingConfigs.getByName("debug")
        }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
}

// Every method of the app's own, in the release build: `--mapping app/build/outputs/tracetee/release/mapping.txt`.
tracetee {
    include.add("dev.tracetee.sample.**")
    variants.add("release")
}

dependencies {
    implementation(project(":tracetee"))
    implementation(project(":coroutines"))
    implementation(libs.kotlinx.coroutines.android)
    implementation(libs.androidx.metrics)
}
