package dev.tracetee.tests;

import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What rewritten libraries call: each end must end what its own method began. Java, and of the JDK only what is
 * not rewritten: it must not meet itself.
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
