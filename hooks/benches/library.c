/*
 * A library with as many relocations as a middling one of a phone: 2,000 relative ones (a table of
 * functions), 40 imports through the PLT, write among them, and one import by pointer.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define F1(n) static int f##n(int x) { return x + n; }
#define F10(n) F1(n##0) F1(n##1) F1(n##2) F1(n##3) F1(n##4) F1(n##5) F1(n##6) F1(n##7) F1(n##8) F1(n##9)
#define F100(n) F10(n##0) F10(n##1) F10(n##2) F10(n##3) F10(n##4) F10(n##5) F10(n##6) F10(n##7) F10(n##8) F10(n##9)
F100(1) F100(2)
#define P1(n) f##n,
#define P10(n) P1(n##0) P1(n##1) P1(n##2) P1(n##3) P1(n##4) P1(n##5) P1(n##6) P1(n##7) P1(n##8) P1(n##9)
#define P100(n) P10(n##0) P10(n##1) P10(n##2) P10(n##3) P10(n##4) P10(n##5) P10(n##6) P10(n##7) P10(n##8) P10(n##9)
int (*functions[])(int) = {P100(1) P100(2) P100(1) P100(2) P100(1) P100(2) P100(1) P100(2) P100(1) P100(2)
                           P100(1) P100(2) P100(1) P100(2) P100(1) P100(2) P100(1) P100(2) P100(1) P100(2)};
ssize_t (*pointer)(int, const void *, size_t) = write;

void *imports(char *a, char *b, int n, FILE *f, pthread_mutex_t *m, pthread_t *t, struct timespec *s) {
    write(n, a, n); read(n, a, n); close(open(a, n)); lseek(n, n, n); fsync(n); dup(n); pipe(&n);
    memchr(a, n, n); strchr(a, n); strrchr(a, n); strstr(a, b); strdup(a); strtol(a, &b, n); strtod(a, &b);
    fopen(a, b); fclose(f); fread(a, n, n, f); fwrite(a, n, n, f); fseek(f, n, n); ftell(f); fflush(f); fputs(a, f);
    pthread_mutex_lock(m); pthread_mutex_unlock(m); pthread_create(t, 0, 0, 0); pthread_join(*t, 0);
    clock_gettime(n, s); nanosleep(s, s); mmap(a, n, n, n, n, n); munmap(a, n); mprotect(a, n, n); getenv(a);
    qsort(a, n, n, 0); rand(); srand(n); abs(n); atoi(a); realloc(a, n); calloc(n, n); free(a);
    return malloc(n);
}
