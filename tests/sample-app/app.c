/*
 * The demo's sample process: behaves like an app, over the stand-in libcutils.
 *
 *   app SECONDS [FILE] a main thread with frames (some of which jank), a render thread, binder-like
 *                      and worker threads that start and end, async sections, counters, instants;
 *                      it ends early when FILE exists
 *   app --cost RECORDS writes that many records in a tight loop, prints the ns of processor time that each took
 *   app --formatting RECORDS formats them as libcutils does, and does not write them
 */
#define _GNU_SOURCE
#define ATRACE_API 34
#include "cutils/trace.h"
#include "stacks.h"
#include "tracetee.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define FRAME_NS 16666667ll

/* Null unless the agent is preloaded. */
#pragma weak tracetee_instant_with

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Busy for some microseconds, as code is that computes. */
static void work(int us) {
    int64_t end = now_ns() + us * 1000ll;
    while (now_ns() < end) {
    }
}

static void sleep_us(int us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000l};
    nanosleep(&pause, NULL);
}

static void section(const char *name, int us) {
    atrace_begin(ATRACE_TAG_VIEW, name);
    work(us);
    atrace_end(ATRACE_TAG_VIEW);
}

/* ---- render thread: one DrawFrames for each frame ---- */

static pthread_mutex_t frame_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t frame_posted = PTHREAD_COND_INITIALIZER;
static long posted_vsync;
static int quit;

static void *render_thread(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "RenderThread");
    long drawn = 0;
    char name[64];
    pthread_mutex_lock(&frame_lock);
    while (!quit) {
        if (posted_vsync == drawn) {
            pthread_cond_wait(&frame_posted, &frame_lock);
            continue;
        }
        drawn = posted_vsync;
        pthread_mutex_unlock(&frame_lock);
        snprintf(name, sizeof name, "DrawFrames %ld", drawn);
        atrace_begin(ATRACE_TAG_GRAPHICS, name);
        section("syncFrameState", 150);
        section("dequeueBuffer", 80);
        section("flush commands", 900);
        section("queueBuffer", 60);
        atrace_end(ATRACE_TAG_GRAPHICS);
        pthread_mutex_lock(&frame_lock);
    }
    pthread_mutex_unlock(&frame_lock);
    return NULL;
}

/* ---- short-lived threads ---- */

static void *binder_thread(void *number) {
    char name[16];
    snprintf(name, sizeof name, "binder:app_%ld", (long)number);
    prctl(PR_SET_NAME, name);
    for (int call = 0; call < 4; call++) {
        section("binder transaction", 200);
        sleep_us(2000);
    }
    return NULL;
}

static void *worker_thread(void *number) {
    char name[16];
    int cookie = (int)(long)number;
    snprintf(name, sizeof name, "worker-%d", cookie);
    prctl(PR_SET_NAME, name);
    atrace_async_begin_body("loadImage", cookie);
    section("decodeBitmap", 1500);
    atrace_async_for_track_begin_body("network", "GET /feed", cookie);
    sleep_us(5000);
    atrace_async_for_track_end_body("network", cookie);
    atrace_async_end_body("loadImage", cookie);
    return NULL;
}

static void start(pthread_t *threads, int *count, void *(*body)(void *), long number) {
    if (pthread_create(&threads[*count], NULL, body, (void *)number) == 0) ++*count;
}

/* ---- main thread ---- */

/*
 * Functions of the app without a section of their own; samples of the callstack find them. They bear names like those of Java's
 * methods, by which reports know code of the app.
 */
#define JAVA_NAME(name) __asm__("com.example.app." name) __attribute__((noinline))
void load_avatar(void) JAVA_NAME("Avatar.load");
void format_price(void) JAVA_NAME("Price.format");
void bind_row(void) JAVA_NAME("Feed.bind");

void load_avatar(void) {
    work(6000);
}

void format_price(void) {
    work(64000);
}

void bind_row(void) {
    load_avatar();
    format_price();
}

/* A frame in so many is late, by one of four causes. */
#define JANKY_EVERY 29

static void janky_part(long frame) {
    switch (frame / JANKY_EVERY % 4) {
    case 0:
        section("inflate", 45000);
        break;
    case 1:
        /* RecyclerView's section. */
        atrace_begin(ATRACE_TAG_VIEW, "RV OnBindView");
        bind_row();
        atrace_end(ATRACE_TAG_VIEW);
        break;
    case 2:
        section("monitor contention with owner worker-3 (4711) at void com.example.Cache.put("
                "java.lang.String)(Cache.java:42) waiters=0 blocking from java.lang.Object "
                "com.example.Cache.get(java.lang.String)(Cache.java:17)", 30000);
        break;
    default:
        atrace_begin(ATRACE_TAG_VIEW, "loadDatabase");
        section("binder transaction", 25000);
        atrace_end(ATRACE_TAG_VIEW);
    }
}

static void do_frame(long frame, long vsync) {
    char name[64];
    snprintf(name, sizeof name, "Choreographer#doFrame %ld", vsync);
    atrace_begin(ATRACE_TAG_VIEW, name);
    section("input", 60);
    section("animation", 300);
    atrace_begin(ATRACE_TAG_VIEW, "traversal");
    section("measure", 500);
    section("layout", 350);
    if (frame % JANKY_EVERY == JANKY_EVERY - 1) janky_part(frame);
    section("draw", 700);
    pthread_mutex_lock(&frame_lock);
    posted_vsync = vsync;
    pthread_cond_signal(&frame_posted);
    pthread_mutex_unlock(&frame_lock);
    atrace_end(ATRACE_TAG_VIEW);
    atrace_end(ATRACE_TAG_VIEW);
    atrace_int_body("pending frames", (int)(frame % 3));
    atrace_int64_body("heap bytes", 64000000 + frame * 4096);
}

/*
 * As the Android library records the compositor's verdict: the app had its part of this frame ready, the compositor not. Linux has
 * no compositor that the app could ask, so the app says so itself; on a phone Android's JankData does.
 */
static void made_late_by_compositor(long vsync, int64_t took_ns) {
    char text[128];
    snprintf(text, sizeof text, "vsync=%ld jank=1 allowed_ns=%lld total_ns=%lld", vsync, FRAME_NS, (long long)took_ns);
    tracetee_arg args[] = {{"source", TRACETEE_STRING, {.string = "jank_data"}}, {"frame", TRACETEE_STRING, {.string = text}}};
    tracetee_details details = {.category = "tracetee.frame", .args = args, .arg_count = 2};
    if (tracetee_instant_with) tracetee_instant_with("frame verdict", &details);
}

static int behave_like_an_app(double seconds, const char *end_file) {
    static pthread_t short_lived[4096];
    int started = 0;
    pthread_t render;
    prctl(PR_SET_NAME, "com.example.app");
    if (pthread_create(&render, NULL, render_thread, NULL) != 0) return 1;
    stacks_start();
    section("bindApplication", 40000);
    section("performResume:com.example.app.FeedActivity", 5000);
    atrace_instant_body("activityStart");
    int64_t begin = now_ns(), next = begin;
    long vsync = 1000;
    int wants_verdict = 0;
    for (long frame = 0; now_ns() - begin < (int64_t)(seconds * 1e9) && started < 4090; frame++) {
        if (end_file && access(end_file, F_OK) == 0) break;
        if (frame % 20 == 5) start(short_lived, &started, binder_thread, frame / 20);
        if (frame % 8 == 3) start(short_lived, &started, worker_thread, frame / 8);
        int64_t frame_begin = now_ns();
        stacks_frame_begins();
        do_frame(frame, vsync);
        stacks_frame_ends();
        int64_t took_ns = now_ns() - frame_begin;
        /* Of a frame that was ready early, on a busy machine, too. */
        if (frame % JANKY_EVERY == 12) wants_verdict = 1;
        if (wants_verdict && took_ns < FRAME_NS / 2) {
            made_late_by_compositor(vsync, took_ns);
            wants_verdict = 0;
        }
        if (frame % JANKY_EVERY == JANKY_EVERY - 1) atrace_instant_for_track_body("jank", "frame dropped");
        next += FRAME_NS;
        vsync += 1;
        while (next < now_ns()) {
            next += FRAME_NS;
            vsync += 1;
        }
        sleep_us((int)((next - now_ns()) / 1000));
    }
    pthread_mutex_lock(&frame_lock);
    quit = 1;
    pthread_cond_signal(&frame_posted);
    pthread_mutex_unlock(&frame_lock);
    pthread_join(render, NULL);
    stacks_stop();
    for (int i = 0; i < started; i++) pthread_join(short_lived[i], NULL);
    return 0;
}

/* Of this thread: other programs on the machine do not count. */
static int64_t processor_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000000000ll + used.tv_nsec;
}

static int measure_cost(long records) {
    int64_t begin = processor_ns();
    for (long i = 0; i < records / 2; i++) {
        atrace_begin(ATRACE_TAG_VIEW, "Choreographer#doFrame 12345");
        atrace_end(ATRACE_TAG_VIEW);
    }
    printf("%.1f\n", (double)(processor_ns() - begin) / (double)(records / 2 * 2));
    return 0;
}

static int measure_formatting(long records) {
    static const char *const formats[] = {"B|%d|%s", "E|%d%s"};
    static const char *const names[] = {"Choreographer#doFrame 12345", ""};
    char record[1024];
    volatile int length = 0;
    int64_t begin = processor_ns();
    for (long i = 0; i < records; i++)
        length = snprintf(record, sizeof record, formats[i % 2], getpid(), names[i % 2]);
    printf("%.1f\n", (double)(processor_ns() - begin) / (double)records);
    return length < 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--formatting") == 0) return measure_formatting(atol(argv[2]));
    if (argc == 3 && strcmp(argv[1], "--cost") == 0) return measure_cost(atol(argv[2]));
    return behave_like_an_app(argc > 1 ? atof(argv[1]) : 3, argc > 2 ? argv[2] : NULL);
}
