/*
 * Stand-in for AOSP's libcutils tracing, for tests and the demo: writes the same records in the
 * same way as the release ATRACE_API, to the kernel's real trace_marker. Written for this project
 * from the description in ../shared/facts; it is not AOSP's code.
 *
 * Build options:
 *   ATRACE_API=N       the Android release to behave as (22 … 35)
 *   ATRACE_WRITE_CHK   call __write_chk, as fortified builds do, instead of write
 *   ATRACE_POINTER     call through a function pointer with an initialiser
 *   ATRACE_NO_RELEASE  ro.build.version.sdk is not set
 *   ATRACE_RAW_WRITE   make the system call itself, so that no hook of write sees a record
 *   ATRACE_POINTER_AND_PLT  with ATRACE_POINTER: ends go through the PLT all the same
 * Environment:
 *   ATRACE_MARKER      the marker's path; "none" for a device where it cannot be opened
 *   ATRACE_PROPERTY    initial value of debug.atrace.tags.enableflags
 *   ATRACE_PREFER_SDK  value of debug.atrace.prefer_sdk
 */
#define _GNU_SOURCE
#include "cutils/trace.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT uint64_t atrace_enabled_tags = 1ull << 63;
EXPORT int atrace_marker_fd = -1;

/* ---- system properties: the one that matters ---- */

static char property_value[92];
static int property_is_set;
static uint32_t property_serial;
static pthread_mutex_t property_lock = PTHREAD_MUTEX_INITIALIZER;
static const char kProperty[] = "debug.atrace.tags.enableflags";

__attribute__((constructor)) static void property_from_environment(void) {
    const char *value = getenv("ATRACE_PROPERTY");
    if (value) {
        snprintf(property_value, sizeof property_value, "%s", value);
        property_is_set = 1;
    }
}

EXPORT int __system_property_get(const char *name, char *value) {
    int len = 0;
    pthread_mutex_lock(&property_lock);
#if !defined(ATRACE_NO_RELEASE)
    if (strcmp(name, "ro.build.version.sdk") == 0) len = sprintf(value, "%d", ATRACE_API);
#endif
    if (strcmp(name, kProperty) == 0 && property_is_set) len = (int)strlen(strcpy(value, property_value));
    const char *prefer_sdk = getenv("ATRACE_PREFER_SDK");
    if (strcmp(name, "debug.atrace.prefer_sdk") == 0 && prefer_sdk) len = snprintf(value, 92, "%s", prefer_sdk);
    pthread_mutex_unlock(&property_lock);
    if (len == 0) *value = 0;
    return len;
}

EXPORT int __system_property_set(const char *name, const char *value) {
    if (strcmp(name, kProperty) != 0) return -1;
    pthread_mutex_lock(&property_lock);
    snprintf(property_value, sizeof property_value, "%s", value);
    property_is_set = 1;
    __atomic_add_fetch(&property_serial, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&property_lock);
    return 0;
}

static uint64_t tags_of_property(void) {
    char value[92];
    __system_property_get(kProperty, value);
    return strtoull(value, NULL, 0) | ATRACE_TAG_ALWAYS;
}

/* ---- initialisation ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
#if ATRACE_API >= 30
/* As from Android 11: the serial starts unknown, so that the second call reads once more. */
static uint32_t seen_serial = (uint32_t)-1;
#endif

static void init_once(void) {
    const char *path = getenv("ATRACE_MARKER");
    if (path && strcmp(path, "none") == 0) {
        atrace_marker_fd = -1;
    } else if (path) {
        atrace_marker_fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        atrace_marker_fd = open("/sys/kernel/tracing/trace_marker", O_WRONLY | O_CLOEXEC);
        if (atrace_marker_fd == -1)
            atrace_marker_fd = open("/sys/kernel/debug/tracing/trace_marker", O_WRONLY | O_CLOEXEC);
    }
    uint64_t tags = atrace_marker_fd == -1 ? 0 : tags_of_property();
    __atomic_store_n(&atrace_enabled_tags, tags, __ATOMIC_RELAXED);
}

#if ATRACE_API >= 30
EXPORT void atrace_init(void) {
    static int initialised;
    if (!__atomic_exchange_n(&initialised, 1, __ATOMIC_ACQ_REL)) {
        pthread_once(&once, init_once);
        return;
    }
    pthread_once(&once, init_once);
    uint32_t serial = __atomic_load_n(&property_serial, __ATOMIC_ACQUIRE);
    if (__atomic_exchange_n(&seen_serial, serial, __ATOMIC_ACQ_REL) != serial)
        __atomic_store_n(&atrace_enabled_tags, tags_of_property(), __ATOMIC_RELAXED);
}

EXPORT uint64_t atrace_get_enabled_tags(void) {
    atrace_init();
    return __atomic_load_n(&atrace_enabled_tags, __ATOMIC_RELAXED);
}

EXPORT void atrace_setup(void) { atrace_init(); }
#else
EXPORT void atrace_setup(void) { pthread_once(&once, init_once); }
#endif

EXPORT void atrace_update_tags(void) {
    __atomic_store_n(&atrace_enabled_tags, tags_of_property(), __ATOMIC_RELAXED);
}

/* ---- records ---- */

#if ATRACE_API >= 23

#if defined(ATRACE_POINTER)
ssize_t (*volatile atrace_write_pointer)(int, const void *, size_t) = write;
#if defined(ATRACE_POINTER_AND_PLT)
/* Through the pointer for a begin and through the PLT for an end: two slots, one symbol. */
#define MARKER_WRITE(buf, len) \
    ((buf)[0] == 'E' ? write(atrace_marker_fd, buf, len) : atrace_write_pointer(atrace_marker_fd, buf, len))
#else
#define MARKER_WRITE(buf, len) atrace_write_pointer(atrace_marker_fd, buf, len)
#endif
#elif defined(ATRACE_RAW_WRITE)
#include <sys/syscall.h>
#define MARKER_WRITE(buf, len) syscall(SYS_write, atrace_marker_fd, buf, len)
#elif defined(ATRACE_WRITE_CHK)
/* glibc has no __write_chk; the tests' libfortify.so brings bionic's. */
ssize_t __write_chk(int fd, const void *buf, size_t count, size_t buf_size);
#define MARKER_WRITE(buf, len) __write_chk(atrace_marker_fd, buf, len, ATRACE_MESSAGE_LENGTH)
#else
#define MARKER_WRITE(buf, len) write(atrace_marker_fd, buf, len)
#endif

/*
 * Formats into a buffer on the stack; a name that is too long is cut, what follows it is kept.
 * API 23 passes the length that the message would have had to write, as snprintf returns it.
 */
#define WRITE_MSG(format_begin, format_end, pid, name, ...)                                       \
    do {                                                                                           \
        char buf[ATRACE_MESSAGE_LENGTH];                                                           \
        int len = snprintf(buf, sizeof buf, format_begin "%s" format_end, pid, name, ##__VA_ARGS__); \
        if (len >= (int)sizeof buf && ATRACE_API > 23) {                                           \
            int name_len = (int)strlen(name) - (len - (int)sizeof buf) - 1;                        \
            if (name_len < 0) name_len = 0;                                                        \
            len = snprintf(buf, sizeof buf, format_begin "%.*s" format_end, pid, name_len, name,   \
                           ##__VA_ARGS__);                                                         \
        }                                                                                          \
        if (len > 0) (void)!MARKER_WRITE(buf, (size_t)len);                                        \
    } while (0)

EXPORT void atrace_begin_body(const char *name) { WRITE_MSG("B|%d|", "", getpid(), name); }

#if ATRACE_API >= 28
EXPORT void atrace_end_body(void) { WRITE_MSG("E|%d", "", getpid(), ""); }
#elif ATRACE_API >= 26
EXPORT void atrace_end_body(void) {
    char buf[ATRACE_MESSAGE_LENGTH] = "E";
    (void)!MARKER_WRITE(buf, 1);
}
#endif

EXPORT void atrace_async_begin_body(const char *name, int32_t cookie) {
    WRITE_MSG("S|%d|", "|%d", getpid(), name, cookie);
}

EXPORT void atrace_async_end_body(const char *name, int32_t cookie) {
    WRITE_MSG("F|%d|", "|%d", getpid(), name, cookie);
}

EXPORT void atrace_int_body(const char *name, int32_t value) {
    WRITE_MSG("C|%d|", "|%d", getpid(), name, value);
}

EXPORT void atrace_int64_body(const char *name, int64_t value) {
    WRITE_MSG("C|%d|", "|%lld", getpid(), name, (long long)value);
}

#if ATRACE_API >= 33
EXPORT void atrace_instant_body(const char *name) { WRITE_MSG("I|%d|", "", getpid(), name); }

EXPORT void atrace_instant_for_track_body(const char *track, const char *name) {
    char both[2 * ATRACE_MESSAGE_LENGTH];
    snprintf(both, sizeof both, "%s|%s", track, name);
    WRITE_MSG("N|%d|", "", getpid(), both);
}

EXPORT void atrace_async_for_track_begin_body(const char *track, const char *name, int32_t cookie) {
    char both[2 * ATRACE_MESSAGE_LENGTH];
    snprintf(both, sizeof both, "%s|%s", track, name);
    WRITE_MSG("G|%d|", "|%d", getpid(), both, cookie);
}

#if ATRACE_API == 33
EXPORT void atrace_async_for_track_end_body(const char *track, const char *name, int32_t cookie) {
    char both[2 * ATRACE_MESSAGE_LENGTH];
    snprintf(both, sizeof both, "%s|%s", track, name);
    WRITE_MSG("H|%d|", "|%d", getpid(), both, cookie);
}
#else
EXPORT void atrace_async_for_track_end_body(const char *track, int32_t cookie) {
    WRITE_MSG("H|%d|", "|%d", getpid(), track, cookie);
}
#endif
#endif /* 33 */

#endif /* 23 */
