/* Stands in for the NDK's <unistd.h>: the part that libunwind for arm64 uses. */
#pragma once
#ifdef __cplusplus
extern "C"
#endif
long syscall(long number, ...);
