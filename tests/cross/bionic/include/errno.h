/* Stands in for the NDK's <errno.h>: bionic's errno, and the numbers that C sources of ours compare with. */
#pragma once
#ifdef __cplusplus
extern "C"
#endif
int *__errno(void) __attribute__((const));
#define errno (*__errno())
#define EFAULT 14
#define EINVAL 22
