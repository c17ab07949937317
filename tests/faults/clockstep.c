/* Preloaded into a program and all that it starts: its clocks differ from those of the machine by what a file says.
 *
 * The variable CLOCKSTEP names a file of two numbers of 8 bytes: the nanoseconds to be added to the wall clock, and to
 * the clock that counts the time in which the machine sleeps as well. It is mapped: whoever writes to it steps the
 * clocks of all these programs at once, in flight. The monotonic clock goes on, as it does when a clock is set.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, BOOT };
static const int64_t SECOND = 1000000000;
static _Atomic int64_t none[2], *steps = none;

__attribute__((constructor)) static void begin(void) {
    char *name = getenv("CLOCKSTEP");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) steps = mapped;
    close(file);
}

static void add(struct timespec *moment, int64_t step) {
    int64_t whole = step / SECOND, rest = moment->tv_nsec + step % SECOND;
    moment->tv_sec += whole + (rest >= SECOND) - (rest < 0);
    moment->tv_nsec = rest + (rest < 0 ? SECOND : rest >= SECOND ? -SECOND : 0);
}

int clock_gettime(clockid_t clock, struct timespec *moment) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, moment);
    if (result != 0) return result;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) add(moment, steps[WALL]);
    if (clock == CLOCK_BOOTTIME) add(moment, steps[BOOT]);
    return 0;
}

int gettimeofday(struct timeval *restrict moment, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    moment->tv_sec = now.tv_sec;
    moment->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told != NULL) *told = now.tv_sec;
    return now.tv_sec;
}

/* What waits until a moment of the wall clock waits in the kernel, which knows of no step. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    int (*real)(sem_t *, const struct timespec *) = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec moment = *until;
    add(&moment, -steps[WALL]);
    return real(semaphore, &moment);
}
