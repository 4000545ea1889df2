/* LTTng-UST's provider for the bench; its macros read this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER tracetee_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng.h"
#if !defined(TRACETEE_BENCH_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACETEE_BENCH_LTTNG_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(tracetee_bench, record, LTTNG_UST_TP_ARGS(const char *, name),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, name)))
#endif
#include <lttng/tracepoint-event.h>
