// The tracer for androidx.tracing 2, over the library's events.
import org.jetbrains.kotlin.gradle.dsl.JvmTarget
import org.jetbrains.kotlin.gradle.dsl.KotlinVersion

plugins {
    alias(libs.plugins.android.library)
}

android {
    namespace = "dev.tracetee.androidx"
    compileSdk = 36
    defaultConfig {
        // As androidx.tracing 2.
        minSdk = 23
        consumerProguardFiles("consumer-rules.pro")
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
}

kotlin {
    explicitApi()
    coreLibrariesVersion = libs.versions.kotlin.oldest.get()
    compilerOptions {
        languageVersion = KotlinVersion.KOTLIN_2_0
        apiVersion = KotlinVersion.KOTLIN_2_0
        jvmTarget = JvmTarget.JVM_11
        freeCompilerArgs.addAll("-Xsuppress-version-warnings", "-jvm-default=enable")
    }
}

dependencies {
    api(project(":tracetee"))
    api(libs.androidx.tracing)
    compileOnly(libs.androidx.tracing.wire)
}
