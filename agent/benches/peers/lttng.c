/* A tracepoint with a string, and a loop over it. Built against Debian's liblttng-ust-dev. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng.h"

void call_lttng(long records, const char *name) {
    for (long i = 0; i < records; i++) lttng_ust_tracepoint(tracetee_bench, record, name);
}
