package dev.tracetee.androidx;

import androidx.tracing.EventMetadata;

/**
 * Opens {@link EventMetadata} to a subclass. A tracer must return one, but its constructor is `internal` in Kotlin, which
 * is public in the class file: only Java can call it. {@link Details} has the rest.
 */
abstract class EventDetails extends EventMetadata {
    EventDetails() {}
}
