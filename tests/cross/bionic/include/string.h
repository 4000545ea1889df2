/* Stands in for the NDK's <string.h>: the part that zstd uses. */
#pragma once
#include <stddef.h>
int memcmp(const void *left, const void *right, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
