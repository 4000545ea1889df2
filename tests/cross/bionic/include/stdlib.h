/* Stands in for the NDK's <stdlib.h>: the part that zstd and libunwind use. */
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void free(void *pointer);
void abort(void) __attribute__((noreturn));
#ifdef __cplusplus
}
#endif
