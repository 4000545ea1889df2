// The instrumenter: a library, a Gradle plugin over it, and a program from jar to jar.
import org.jetbrains.kotlin.gradle.dsl.JvmTarget
import org.jetbrains.kotlin.gradle.dsl.KotlinVersion

plugins {
    `java-gradle-plugin`
    application
    alias(libs.plugins.kotlin.jvm)
}

group = "dev.tracetee"
version = "0.1.0"

kotlin {
    jvmToolchain(17)
    explicitApi()
    coreLibrariesVersion = libs.versions.kotlin.oldest.get()
    compilerOptions {
        languageVersion = KotlinVersion.KOTLIN_2_0
        apiVersion = KotlinVersion.KOTLIN_2_0
        jvmTarget = JvmTarget.JVM_11
        freeCompilerArgs.addAll("-Xsuppress-version-warnings", "-jvm-default=enable")
    }
}

application {
    mainClass = "dev.tracetee.instrument.MainKt"
}

gradlePlugin {
    plugins.create("instrument") {
        id = "dev.tracetee.instrument"
        implementationClass = "dev.tracetee.instrument.InstrumentPlugin"
    }
}

dependencies {
    implementation(libs.asm.commons)
    compileOnly(libs.android.gradle.api)
    testImplementation(libs.asm.util)
    testImplementation(libs.junit.jupiter)
}

java {
    targetCompatibility = JavaVersion.VERSION_11
}

tasks.test {
    useJUnitPlatform()
}
