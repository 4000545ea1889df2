/*
 * Stand-in for AOSP's <cutils/trace.h>, for tests and the demo: the same inline functions, calling
 * (or not yet calling) out of line as the release ATRACE_API does. Written for this project from
 * the description in ../shared/facts; it is not AOSP's code.
 */
#ifndef TRACETEE_STANDIN_CUTILS_TRACE_H
#define TRACETEE_STANDIN_CUTILS_TRACE_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#ifndef ATRACE_API
#define ATRACE_API 34
#endif

#define ATRACE_TAG_ALWAYS (1ull << 0)
#define ATRACE_TAG_GRAPHICS (1ull << 1)
#define ATRACE_TAG_VIEW (1ull << 3)
#define ATRACE_TAG_APP (1ull << 12)
#define ATRACE_MESSAGE_LENGTH 1024

extern uint64_t atrace_enabled_tags;
extern int atrace_marker_fd;
void atrace_setup(void);
void atrace_update_tags(void);
#if ATRACE_API >= 30
void atrace_init(void);
uint64_t atrace_get_enabled_tags(void);
#endif

/* What the linked library does with a record; inline code below API 23 does it itself. */
void atrace_begin_body(const char *name);
void atrace_end_body(void);
void atrace_async_begin_body(const char *name, int32_t cookie);
void atrace_async_end_body(const char *name, int32_t cookie);
void atrace_int_body(const char *name, int32_t value);
void atrace_int64_body(const char *name, int64_t value);
#if ATRACE_API >= 33
void atrace_instant_body(const char *name);
void atrace_instant_for_track_body(const char *track, const char *name);
void atrace_async_for_track_begin_body(const char *track, const char *name, int32_t cookie);
#if ATRACE_API == 33
void atrace_async_for_track_end_body(const char *track, const char *name, int32_t cookie);
#else
void atrace_async_for_track_end_body(const char *track, int32_t cookie);
#endif
#endif

static inline uint64_t atrace_is_tag_enabled(uint64_t tag) {
#if ATRACE_API >= 30
    return atrace_get_enabled_tags() & tag;
#else
    if (__atomic_load_n(&atrace_enabled_tags, __ATOMIC_RELAXED) >> 63) atrace_setup();
    return __atomic_load_n(&atrace_enabled_tags, __ATOMIC_RELAXED) & tag;
#endif
}

static inline void atrace_begin(uint64_t tag, const char *name) {
    if (!atrace_is_tag_enabled(tag)) return;
#if ATRACE_API >= 23
    atrace_begin_body(name);
#else
    char buf[ATRACE_MESSAGE_LENGTH];
    int len = snprintf(buf, sizeof buf, "B|%d|%s", getpid(), name);
    if (len >= (int)sizeof buf) len = sizeof buf - 1;
    (void)!write(atrace_marker_fd, buf, len);
#endif
}

static inline void atrace_end(uint64_t tag) {
    if (!atrace_is_tag_enabled(tag)) return;
#if ATRACE_API >= 26
    atrace_end_body();
#else
    char c = 'E';
    (void)!write(atrace_marker_fd, &c, 1);
#endif
}

#endif
