/* What a program for Android needs of bionic and musl does not have, or has otherwise: linked into
 * the static executable that tests/cross/native-android makes. Kernel structures (stat, dirent64,
 * timespec, sockaddr) are the same in both; constants of sysconf are not. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int *__errno(void) { return __errno_location(); }

/* bionic's numbers (bits/sysconf.h), as far as std asks for them. */
long sysconf(int name) {
    switch (name) {
    case 0x27: case 0x28: return 4096; /* _SC_PAGESIZE, _SC_PAGE_SIZE */
    case 0x60: case 0x61: return 2;    /* _SC_NPROCESSORS_CONF, _SC_NPROCESSORS_ONLN */
    default: fprintf(stderr, "sysconf(%#x): bionic.c does not know it\n", name); abort();
    }
}

int __system_property_get(const char *name, char *value) {
    strcpy(value, strcmp(name, "ro.build.version.sdk") == 0 ? "28" : "");
    return (int)strlen(value);
}

/* As bionic's for a thread that has ended: musl does not tell the id of any. */
pid_t pthread_gettid_np(pthread_t thread) {
    (void)thread;
    return -1;
}

/* A static program has no symbols to search: those that the agent hooks, and the properties'. */
void *dlsym(void *handle, const char *name) {
    static const struct { const char *name; void *address; } known[] = {
        {"write", (void *)write}, {"prctl", (void *)prctl},
        {"pthread_setname_np", (void *)pthread_setname_np},
        {"__system_property_get", (void *)__system_property_get},
    };
    (void)handle;
    for (size_t index = 0; index < sizeof known / sizeof *known; index++)
        if (strcmp(known[index].name, name) == 0) return known[index].address;
    return NULL;
}

int __popcountdi2(long long value) {
    int bits = 0;
    for (unsigned long long rest = (unsigned long long)value; rest != 0; rest &= rest - 1) bits++;
    return bits;
}

/* The unwinder. The program is built with panic=abort: only a backtrace would come here. */
#define NOT_HERE(name) void name(void) { fputs(#name " was called\n", stderr); abort(); }
NOT_HERE(_Unwind_ForcedUnwind)
NOT_HERE(_Unwind_GetCFA)
NOT_HERE(_Unwind_GetDataRelBase)
NOT_HERE(_Unwind_GetIP)
NOT_HERE(_Unwind_GetIPInfo)
NOT_HERE(_Unwind_GetLanguageSpecificData)
NOT_HERE(_Unwind_GetRegionStart)
NOT_HERE(_Unwind_GetTextRelBase)
NOT_HERE(_Unwind_Resume)
NOT_HERE(_Unwind_SetGR)
NOT_HERE(_Unwind_SetIP)
NOT_HERE(__gcc_personality_v0)
int _Unwind_Backtrace(void *step, void *context) { (void)step; (void)context; return 5; /* end of stack */ }
