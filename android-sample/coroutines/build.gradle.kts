// Coroutine tracing, over the library's markers.
import org.jetbrains.kotlin.gradle.dsl.JvmTarget
import org.jetbrains.kotlin.gradle.dsl.KotlinVersion

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
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    testOptions.unitTests.all { it.useJUnitPlatform() }
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
    api(project(":tracetee"))
    api(libs.kotlinx.coroutines.core)
    testImplementation(libs.junit.jupiter)
}
