// The library, its no-op twin, its tracing of coroutines and of androidx.tracing 2, and a sample app. The instrumenter's plugin is a build of its own, since
// a build cannot apply a plugin that it makes.
pluginManagement {
    includeBuild("instrument")
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositoriesMode = RepositoriesMode.FAIL_ON_PROJECT_REPOS
    repositories {
        google()
        mavenCentral()
    }
}

rootProject.name = "tracetee-android"
include(":tracetee", ":noop", ":coroutines", ":androidx-tracing", ":app")
