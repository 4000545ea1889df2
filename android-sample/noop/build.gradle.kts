// The library's API with nothing behind it, for builds that carry no agent. Its settings and its interface of an HTTP
// client are the library's own sources.
import org.jetbrains.kotlin.gradle.dsl.JvmTarget
import org.jetbrains.kotlin.gradle.dsl.KotlinVersion

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
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    sourceSets["main"].kotlin.directories.add("../tracetee/src/api/kotlin")
}

kotlin {
    explicitApi()
    coreLibrariesVersion = libs.versions.kotlin.oldest.get()
    compilerOptions {
        languageVersion = KotlinVersion.KOTLIN_2_0
        apiVersion = KotlinVersion.KOTLIN_2_0
        jvmTarget = JvmTarget.JVM_1_8
        freeCompilerArgs.addAll("-Xsuppress-version-warnings", "-jvm-default=enable")
    }
}

dependencies {
    implementation(libs.androidx.startup)
}
