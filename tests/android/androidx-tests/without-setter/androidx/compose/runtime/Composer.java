// Stand-in for a version of Compose that has no Composer.setTracer any more.
package androidx.compose.runtime;

public interface Composer {
    Companion Companion = new Companion();

    final class Companion {}
}
