/* Stands in for the NDK's <stdlib.h>: the part that zstd uses. */
#pragma once
#include <stddef.h>
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void free(void *pointer);
