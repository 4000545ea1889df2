/*
 * Stands in for the NDK's <stdio.h>: what libunwind says before it aborts. At API 21 stderr is an element of
 * __sF; the variable of that name exists from API 23 on.
 */
#pragma once
typedef struct __sFILE {
#if defined(__LP64__)
    char __private[152];
#else
    char __private[84];
#endif
} __attribute__((aligned(__SIZEOF_POINTER__))) FILE;
#ifdef __cplusplus
extern "C" {
#endif
extern FILE __sF[];
#define stderr (&__sF[2])
int fprintf(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fflush(FILE *file);
#ifdef __cplusplus
}
#endif
