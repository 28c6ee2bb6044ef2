/* The system's clock for processes that are started with this in LD_PRELOAD: it is ahead by the seconds (64 bits,
   of this machine's order) in the file that CLOCK_FILE names, from the moment that they are written there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* How long a wait lasts before the clock is asked again, ns. */
#define SLICE 50000000

static const volatile int64_t *ahead;

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("CLOCK_FILE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    ahead = seen == MAP_FAILED ? NULL : seen;
}

int clock_gettime(clockid_t which, struct timespec *at)
{
    int failed = (int)syscall(SYS_clock_gettime, which, at);
    if (!failed && ahead && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        at->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

/* librdkafka waits until a time of this clock: as in the kernel, a clock that is set moves the end of such a wait. */
int cnd_timedwait(cnd_t *restrict change, mtx_t *restrict held, const struct timespec *restrict until)
{
    int (*wait)(cnd_t *, mtx_t *, const struct timespec *) = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec now, end;
    int ended;
    do {
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t left = (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + until->tv_nsec - now.tv_nsec;
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &end);
        int64_t slice = left < 0 ? 0 : left > SLICE ? SLICE : left;
        end.tv_nsec += slice;
        end.tv_sec += end.tv_nsec / 1000000000;
        end.tv_nsec %= 1000000000;
        ended = wait(change, held, &end);
        if (left <= SLICE)
            break;
    } while (ended == thrd_timedout);
    return ended;
}
