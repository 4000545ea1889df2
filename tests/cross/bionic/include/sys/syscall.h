/* Stands in for the NDK's <sys/syscall.h>: the one call that libunwind for arm64 makes. */
#pragma once
#if defined(__aarch64__)
#define SYS_rt_sigprocmask 135
#endif
