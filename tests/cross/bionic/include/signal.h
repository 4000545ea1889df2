/* Stands in for the NDK's <signal.h>: the kernel's set of signals, whose size libunwind for arm64 asks for. */
#pragma once
typedef struct {
    unsigned long __bits[1];
} sigset_t;
#define NSIG 65
