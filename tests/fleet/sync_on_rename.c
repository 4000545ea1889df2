/* Loaded into nginx by tests/fleet/throughput: nginx gives an upload its name with rename(2) and never syncs it. This
 * syncs the file before, and the directory after, as a collector must before it acknowledges a capture. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int synced(const char *path, int flags, int (*sync)(int)) {
    int descriptor = open(path, flags | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    int result = sync(descriptor);
    close(descriptor);
    return result;
}

int rename(const char *from, const char *to) {
    int (*next)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    char directory[PATH_MAX];
    if (!next || strlen(to) >= sizeof directory || synced(from, O_RDONLY, fdatasync) != 0 || next(from, to) != 0)
        return -1;
    strcpy(directory, to);
    return synced(dirname(directory), O_RDONLY | O_DIRECTORY, fsync);
}
