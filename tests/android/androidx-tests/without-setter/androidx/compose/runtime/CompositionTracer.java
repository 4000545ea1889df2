package androidx.compose.runtime;

public interface CompositionTracer {
    boolean isTraceInProgress();
}
