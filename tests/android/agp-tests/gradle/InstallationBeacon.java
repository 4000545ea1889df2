package org.gradle.internal.installation.beacon;

/** Stand-in for the class of Gradle's distribution that tells where it is; gradle-api lacks it. */
public final class InstallationBeacon {
    private InstallationBeacon() {}
}
