/*
 * Samples the callstack of the sample app's main thread while a frame is late, as the Android library does in an app, and
 * hands the samples to the agent through its C API. docs/TRACE-FORMAT.md has their form.
 *
 * The sampler's thread sends a signal to the main thread, whose handler takes the stack into memory that is there already.
 * Names are found afterwards, outside the handler.
 */
#define _GNU_SOURCE
#include "stacks.h"

#include "tracetee.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* Null unless the agent is preloaded. */
#pragma weak tracetee_instant_with
#pragma weak tracetee_now_ns
#pragma weak tracetee_wants_stacks

enum { MOST_FRAMES = 48, MOST_NAMES = 26 * 26, NAME_BYTES = 120 };

/* The handler itself and the function through which it returns. */
enum { OF_HANDLER = 2 };

static const uint64_t MS = 1000000;
static const uint64_t PERIOD_NS = 20000000;

static pthread_t main_thread, sampler;
static bool is_started;
static atomic_bool quit;

/* Time at which the main thread's frame began; 0 between frames. */
static atomic_ullong begun_ns;

/* A sample. Only the handler writes it, between a signal and `taken`. */
static struct {
    void *frames[MOST_FRAMES];
    int depth;
    uint64_t at_ns, begun_ns;
} sample;
static sem_t taken;

static void take_stack(int signal) {
    int kept = errno;
    (void)signal;
    sample.at_ns = tracetee_now_ns();
    sample.begun_ns = atomic_load(&begun_ns);
    sample.depth = backtrace(sample.frames, MOST_FRAMES);
    sem_post(&taken);
    errno = kept;
}

/* Names of functions, and the late frame in which each was written last. Only the sampler uses them. */
static struct {
    char text[NAME_BYTES];
    uint64_t begun_ns;
} names[MOST_NAMES];
static int name_count;

static void name_of(void *address, char *text) {
    Dl_info info;
    if (dladdr(address, &info) && info.dli_sname) {
        snprintf(text, NAME_BYTES, "%s", info.dli_sname);
    } else if (dladdr(address, &info) && info.dli_fname) {
        const char *file = strrchr(info.dli_fname, '/');
        snprintf(text, NAME_BYTES, "(%.80s)", file ? file + 1 : info.dli_fname);
    } else {
        snprintf(text, NAME_BYTES, "(unknown)");
    }
}

static void write_instant(const char *name, const tracetee_arg *args, size_t count) {
    tracetee_details details = {.args = args, .arg_count = count};
    tracetee_instant_with(name, &details);
}

/* Returns the number of a function, whose name is in the trace since this late frame's begin; -1 if there are too many. */
static int number_of(void *address) {
    char text[NAME_BYTES];
    int number = 0;
    name_of(address, text);
    while (number < name_count && strcmp(names[number].text, text) != 0) number++;
    if (number == MOST_NAMES) return -1;
    if (number == name_count) {
        memcpy(names[number].text, text, NAME_BYTES);
        names[number].begun_ns = 0;
        name_count++;
    }
    if (names[number].begun_ns != sample.begun_ns) {
        names[number].begun_ns = sample.begun_ns;
        char code[] = {(char)('a' + number / 26), (char)('a' + number % 26), 0};
        tracetee_arg arg = {code, TRACETEE_STRING, {.string = text}};
        write_instant("tracetee: stack names", &arg, 1);
    }
    return number;
}

/* Writes the sample, which stands for the time since `since_ns`. */
static void write_sample(uint64_t since_ns) {
    char stack[3 * MOST_FRAMES + 1] = "";
    size_t length = 0;
    for (int place = OF_HANDLER; place < sample.depth; place++) {
        /* All but the innermost function are at the instruction after a call. */
        char *address = (char *)sample.frames[place] - (place > OF_HANDLER);
        int number = number_of(address);
        if (number < 0) continue;
        if (length > 0) stack[length++] = ' ';
        stack[length++] = (char)('a' + number / 26);
        stack[length++] = (char)('a' + number % 26);
    }
    tracetee_arg args[] = {
        {"tid", TRACETEE_INTEGER, {.integer = getpid()}},
        {"stack", TRACETEE_STRING, {.string = stack}},
        {"ago_us", TRACETEE_INTEGER, {.integer = (int64_t)((tracetee_now_ns() - sample.at_ns) / 1000)}},
        {"for_us", TRACETEE_INTEGER, {.integer = (int64_t)((sample.at_ns - since_ns) / 1000)}},
    };
    write_instant("tracetee: stack", args, sizeof args / sizeof args[0]);
}

static void sleep_ns(uint64_t ns) {
    struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&pause, NULL);
}

/* Samples a late frame until it ends. Returns the number of samples. */
static uint32_t sample_frame(uint64_t begun, uint32_t most) {
    uint64_t since_ns = begun;
    uint32_t count = 0;
    while (atomic_load(&begun_ns) == begun && count < most && !atomic_load(&quit)) {
        if (pthread_kill(main_thread, SIGPROF) != 0) return count;
        while (sem_wait(&taken) != 0) {
        }
        if (sample.begun_ns != begun || sample.depth <= OF_HANDLER) return count;
        write_sample(since_ns);
        count++;
        since_ns = sample.at_ns;
        sleep_ns(PERIOD_NS);
    }
    return count;
}

static void *sample_late_frames(void *unused) {
    (void)unused;
    /* By this name the agent knows whose sections it leaves out. */
    prctl(PR_SET_NAME, "tracetee-stacks");
    uint32_t after_ms = 0, most = 0, count = 0;
    while (!atomic_load(&quit)) {
        uint64_t begun = atomic_load(&begun_ns), now = tracetee_now_ns();
        if (!tracetee_wants_stacks(&after_ms, &most)) {
            count = 0;
            sleep_ns(PERIOD_NS);
        } else if (begun == 0 || count >= most) {
            sleep_ns(after_ms * MS / 2);
        } else if (now < begun + after_ms * MS) {
            sleep_ns(begun + after_ms * MS - now);
        } else {
            count += sample_frame(begun, most - count);
            sleep_ns(PERIOD_NS / 2);
        }
    }
    return NULL;
}

void stacks_start(void) {
    if (!tracetee_instant_with || !tracetee_now_ns || !tracetee_wants_stacks) return;
    /* The first call loads the unwinder, which a handler must not do. */
    void *frames[1];
    backtrace(frames, 1);
    main_thread = pthread_self();
    sem_init(&taken, 0, 0);
    struct sigaction action = {.sa_handler = take_stack, .sa_flags = SA_RESTART};
    is_started = sigaction(SIGPROF, &action, NULL) == 0 && pthread_create(&sampler, NULL, sample_late_frames, NULL) == 0;
}

void stacks_frame_begins(void) {
    if (is_started) atomic_store(&begun_ns, tracetee_now_ns());
}

void stacks_frame_ends(void) {
    atomic_store(&begun_ns, 0);
}

void stacks_stop(void) {
    if (!is_started) return;
    atomic_store(&quit, true);
    pthread_join(sampler, NULL);
}
