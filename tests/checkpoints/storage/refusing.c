/* Preloaded: a file system below $REFUSING that refuses the calls named in $REFUSES, as FUSE mounts do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int refuses(const char *call) {
    const char *list = getenv("REFUSES");
    return list && strstr(list, call);
}

static int is_there(int fd) {
    char link[64], path[4096];
    const char *root = getenv("REFUSING");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!root || length < 0) return 0;
    path[length] = 0;
    return strncmp(path, root, strlen(root)) == 0;
}

int flock(int fd, int operation) {
    int (*real)(int, int) = dlsym(RTLD_NEXT, "flock");
    if (refuses("flock") && is_there(fd)) { errno = ENOSYS; return -1; }
    return real(fd, operation);
}

int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    if (refuses("fsync") && is_there(fd)) { errno = EINVAL; return -1; }
    return real(fd);
}

ssize_t write(int fd, const void *buffer, size_t count) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    int flags = refuses("append") ? fcntl(fd, F_GETFL) : 0;
    if (flags > 0 && (flags & O_APPEND) && is_there(fd)) { errno = EOPNOTSUPP; return -1; }
    return real(fd, buffer, count);
}
