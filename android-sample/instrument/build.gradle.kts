// The instrumenter: a library, a Gradle plugin over it, and a program from jar to jar.
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

tasks.test {
    useJUnitPlatform()
}
