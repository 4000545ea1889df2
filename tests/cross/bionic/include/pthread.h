/* Stands in for the NDK's <pthread.h>: bionic's read-write lock, whose size differs from glibc's. */
#pragma once
#include <stdint.h>
typedef struct {
#if defined(__LP64__)
    int32_t __private[14];
#else
    int32_t __private[10];
#endif
} pthread_rwlock_t;
#define PTHREAD_RWLOCK_INITIALIZER { { 0 } }
#ifdef __cplusplus
extern "C" {
#endif
int pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int pthread_rwlock_unlock(pthread_rwlock_t *lock);
#ifdef __cplusplus
}
#endif
