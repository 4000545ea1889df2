// The library that an app depends on, with libtracetee.so for four ABIs inside.
import org.jetbrains.kotlin.gradle.dsl.JvmTarget
import org.jetbrains.kotlin.gradle.dsl.KotlinVersion

plugins {
    alias(libs.plugins.android.library)
}

android {
    namespace = "dev.tracetee"
    compileSdk = 36
    defaultConfig {
        minSdk = 21
        consumerProguardFiles("consumer-rules.pro")
        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    // The directory into which `cargoNdk` puts the libraries.
    sourceSets["main"].jniLibs.directories.add(layout.buildDirectory.dir("jniLibs").get().asFile.path)
    // The part of the API that the no-op artifact compiles too.
    sourceSets["main"].kotlin.directories.add("src/api/kotlin")
    testOptions.unitTests.isIncludeAndroidResources = true
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
    // Only an app that calls JankHook needs it, and brings it.
    compileOnly(libs.androidx.metrics)
    testImplementation(libs.androidx.metrics)
    testImplementation(libs.robolectric)
    testImplementation(libs.junit4)
    androidTestImplementation(libs.androidx.test.runner)
    androidTestImplementation(libs.junit4)
    // AppTest needs the agent for this machine, and the collector: see there.
}

// The agent: `cargo install cargo-ndk`, and `rustup target add aarch64-linux-android armv7-linux-androideabi
// x86_64-linux-android i686-linux-android`, once.
val cargoNdk by tasks.registering(Exec::class) {
    val workspace = rootDir.parentFile
    workingDir = workspace
    inputs.files(fileTree(workspace) {
        include("agent/**", "hooks/**", "uploader/**", "Cargo.*", ".cargo/**")
        exclude("**/target/**")
    })
    val out = layout.buildDirectory.dir("jniLibs")
    outputs.dir(out)
    commandLine(
        "cargo", "ndk", "-t", "arm64-v8a", "-t", "armeabi-v7a", "-t", "x86_64", "-t", "x86",
        "--platform", "21", "-o", out.get().asFile.path,
        "build", "--package", "tracetee-agent", "--lib", "--profile", "agent", "--features", "jni", "--locked",
    )
}
tasks.named("preBuild") { dependsOn(cargoNdk) }
