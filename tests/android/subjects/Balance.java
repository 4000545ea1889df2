package dev.tracetee.tests;

import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Receives the calls of rewritten libraries: each end must end the section that its own method began. It is Java,
 * and uses only those classes of the JDK that are not rewritten: it must not call itself.
 */
public final class Balance {
    private Balance() {}

    private static final ThreadLocal<ArrayDeque<String>> OPEN = ThreadLocal.withInitial(ArrayDeque::new);
    public static final AtomicLong BEGINS = new AtomicLong();
    public static final AtomicLong STRAY_ENDS = new AtomicLong();

    public static void begin(String id) {
        BEGINS.incrementAndGet();
        OPEN.get().push(id);
    }

    public static void end() {
        if (OPEN.get().poll() == null) STRAY_ENDS.incrementAndGet();
    }

    /** Sections that are open on this thread. */
    public static int open() {
        return OPEN.get().size();
    }
}
