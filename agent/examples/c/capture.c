// Captures a few sections of this program, and writes them as ftrace text.
//
//   cargo build --release --package tracetee-agent
//   cc agent/examples/c/capture.c -Iagent/include -Ltarget/release -ltracetee -o capture
//   LD_LIBRARY_PATH=target/release ./capture trace.ftrace
//
// Open the trace in ui.perfetto.dev. A name that ends in .zst compresses it.
#include <stdio.h>
#include <tracetee.h>

static int failed(const char *what) {
    char reason[256];
    tracetee_last_error(reason, sizeof reason);
    fprintf(stderr, "%s: %s\n", what, reason);
    return 1;
}

static void spin(void) {
    TRACETEE_FUNCTION_SECTION; // ends with the function
    for (volatile int turn = 0; turn < 1000; turn++) {}
}

static unsigned long sum_to(unsigned long last) {
    const tracetee_arg args[] = {{"last", TRACETEE_INTEGER, {.integer = (int64_t)last}}};
    const tracetee_details details = {.category = "math", .args = args, .arg_count = 1};
    tracetee_begin_section_with("sum", &details);
    unsigned long sum = 0;
    for (unsigned long number = 1; number <= last; number++) sum += number;
    tracetee_end_section();
    return sum;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "trace.ftrace";
    // Keeps the newest 4 MiB of records.
    if (tracetee_start("{\"recorder\": {\"mode\": \"ring\", \"capacity_kb\": 4096}}") != 0)
        return failed("start");
    tracetee_begin_section("work");
    for (int round = 1; round <= 3; round++) tracetee_counter("sum", (int64_t)sum_to(round * 1000ul));
    spin();
    tracetee_end_section();
    tracetee_instant("done");
    if (tracetee_stop() != 0) return failed("stop");
    // The records stay until the next start.
    if (tracetee_dump(path) < 0) return failed("dump");
    printf("wrote %s\n", path);
    return 0;
}
