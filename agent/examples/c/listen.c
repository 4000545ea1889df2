// Streams a trace of this program to a file, and to a function while it is recorded.
//
//   cargo build --release --package tracetee-agent
//   cc agent/examples/c/listen.c -Iagent/include -Ltarget/release -ltracetee -lpthread -o listen
//   LD_LIBRARY_PATH=target/release ./listen trace.ftrace >heard.ftrace
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tracetee.h>
#include <unistd.h>

static atomic_bool is_heard;

static void expect(int result, const char *what) {
    char reason[256];
    if (result == 0) return;
    tracetee_last_error(reason, sizeof reason);
    fprintf(stderr, "%s: %s\n", what, reason);
    exit(1);
}

// Gets whole lines of the trace, on the thread that listens.
static void block(const char *text, size_t bytes, uint64_t lost, void *file) {
    if (lost > 0) fprintf(stderr, "%llu blocks were left out\n", (unsigned long long)lost);
    fwrite(text, 1, bytes, file);
    atomic_store(&is_heard, true);
}

static void *work(void *unused) {
    // The thread that streams writes once a second, and whenever the memory fills up.
    for (int round = 1; !atomic_load(&is_heard); round++) {
        tracetee_begin_section("work");
        tracetee_counter("round", round);
        usleep(10000);
        tracetee_end_section();
    }
    tracetee_instant("done");
    // Writes the rest, which is the listener's last block.
    expect(tracetee_stop(), "stop");
    return unused;
}

int main(int argc, char **argv) {
    char config[512];
    pthread_t worker;
    snprintf(config, sizeof config, "{\"recorder\": {\"mode\": \"endless\"}, \"output\": \"%s\"}",
             argc > 1 ? argv[1] : "trace.ftrace");
    expect(tracetee_start(config), "start");
    pthread_create(&worker, NULL, work, NULL);
    expect(tracetee_listen(block, stdout), "listen");
    pthread_join(worker, NULL);
    return 0;
}
