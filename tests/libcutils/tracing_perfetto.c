/*
 * Stand-in for AOSP's libtracing_perfetto.so, for tests: the same exported (C++) names, and who gets
 * an event, atrace or the Perfetto SDK, as the library decides it. Written for this project; it is
 * not AOSP's code. Checked against:
 *   - frameworks/native/libs/tracing_perfetto/tracing_perfetto{,_internal}.cpp of Android 16, as in
 *     omnirom/android_frameworks_native at 49bc52cb096a9c3eb43983d97cad630b473dcd37, and of the first
 *     Android 15, as in LineageOS/android_frameworks_native at a3d2ec8a4c9b51494425d751870620e682d31eb8;
 *   - the symbols of the arm64 and arm libraries in Google's system images 15 AP41.240726.009 and
 *     BP11.241121.010: these names (with "y" for "m" on arm), all exported.
 *
 * Build options:
 *   PREFERS_SDK      as the first Android 15: the SDK gets what it has a session for, whatever the tags
 *   HIDES_INTERNALS  exports nothing of the namespace `internal`
 */
#include "cutils/trace.h"

#include <stdbool.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#if defined(HIDES_INTERNALS)
#define INTERNAL __attribute__((visibility("hidden")))
#else
#define INTERNAL EXPORT
#endif

int __system_property_get(const char *name, char *value);

/* ---- the SDK: categories by their tags, and how many events it got ---- */

struct PerfettoTeCategory {
    uint64_t tag;
};
static struct PerfettoTeCategory categories[28];
static uint64_t session_tags;
static int events;

/* A session of the SDK has these tags' categories on from now on. */
EXPORT void stand_in_session(uint64_t tags) { __atomic_store_n(&session_tags, tags, __ATOMIC_RELAXED); }

/* How many events the SDK got since the last call. */
EXPORT int stand_in_events(void) { return __atomic_exchange_n(&events, 0, __ATOMIC_RELAXED); }

/* ---- tracing_perfetto::internal ---- */

INTERNAL struct PerfettoTeCategory *_ZN16tracing_perfetto8internal18toPerfettoCategoryEm(uint64_t tag) {
    int bit = __builtin_ctzll(tag);
    /* As the first Android 15, which reads through a null pointer for what is not a category. */
    if (tag != 1ull << bit || bit >= 28) abort();
    return __atomic_load_n(&session_tags, __ATOMIC_RELAXED) & tag ? &categories[bit] : NULL;
}
#define toPerfettoCategory _ZN16tracing_perfetto8internal18toPerfettoCategoryEm

#if !defined(PREFERS_SDK)
INTERNAL bool _ZN16tracing_perfetto8internal18shouldPreferAtraceEP18PerfettoTeCategorym(
    struct PerfettoTeCategory *category, uint64_t tag) {
    if (!atrace_is_tag_enabled(tag)) return false;
    if (!category) return true;
    char value[92];
    __system_property_get("debug.atrace.prefer_sdk", value);
    return (tag & strtoull(value, NULL, 0)) == 0;
}
#define shouldPreferAtrace _ZN16tracing_perfetto8internal18shouldPreferAtraceEP18PerfettoTeCategorym
#else
static bool shouldPreferAtrace(struct PerfettoTeCategory *category, uint64_t tag) {
    (void)tag;
    return !category;
}
#endif

/* ---- tracing_perfetto ---- */

EXPORT bool _ZN16tracing_perfetto12isTagEnabledEm(uint64_t tag) {
    return toPerfettoCategory(tag) || atrace_is_tag_enabled(tag);
}

EXPORT void _ZN16tracing_perfetto10traceBeginEmPKc(uint64_t tag, const char *name) {
    struct PerfettoTeCategory *category = toPerfettoCategory(tag);
    if (shouldPreferAtrace(category, tag))
        atrace_begin(tag, name);
    else if (category)
        __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
}

EXPORT void _ZN16tracing_perfetto8traceEndEm(uint64_t tag) {
    struct PerfettoTeCategory *category = toPerfettoCategory(tag);
    if (shouldPreferAtrace(category, tag))
        atrace_end(tag);
    else if (category)
        __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
}
