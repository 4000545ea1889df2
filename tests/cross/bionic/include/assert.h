/* Stands in for the NDK's <assert.h>: no C source that is built with it may assert (NDEBUG). */
#ifndef NDEBUG
#error "built without NDEBUG: bionic's __assert2 is not declared here"
#endif
#define assert(condition) ((void)0)
#if !defined(__cplusplus)
#define static_assert _Static_assert
#endif
