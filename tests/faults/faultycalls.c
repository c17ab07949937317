/* Preloaded into a program: counts its calls on the files of one directory, and makes some of them go wrong.
 *
 * The variable FAULT has, a line each:
 *   the directory;
 *   a file to note the calls in, or nothing;
 *   the names of the calls that count, each between spaces;
 *   which of them is the first to go wrong, from 1;
 *   "once", "on" (and all later ones), or the path of a file (and all later ones, as long as there is that file);
 *   what happens: "kill" (the program dies before the call), "killed" (after it), "stop" (it stops itself before the
 *   call, until somebody continues it), "short" (half of it is written), "skip" (a sync is not made, and said to be),
 *   or the number of an error.
 * Only the program itself is meant: what it starts does not see the variable. A program that was started without it
 * may call set_fault for itself.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char directory[PATH_MAX], counted[512], when[PATH_MAX], action[16];
static size_t directory_length;
static int notes = -1;
static long first;
static atomic_long count;

void set_fault(const char *text) {
    char file[PATH_MAX] = "";
    char *copy = strdup(text), *rest = copy, *line;
    for (int field = 0; (line = strsep(&rest, "\n")) != NULL; field++) {
        if (field == 0) snprintf(directory, sizeof directory, "%s", line);
        if (field == 1) snprintf(file, sizeof file, "%s", line);
        if (field == 2) snprintf(counted, sizeof counted, "%s", line);
        if (field == 3) first = atol(line);
        if (field == 4) snprintf(when, sizeof when, "%s", line);
        if (field == 5) snprintf(action, sizeof action, "%s", line);
    }
    free(copy);
    directory_length = strlen(directory);
    count = 0;
    if (*file) {
        int low = syscall(SYS_open, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        notes = fcntl(low, F_DUPFD_CLOEXEC, 400);
        syscall(SYS_close, low);
    }
}

__attribute__((constructor)) static void begin(void) {
    char *text = getenv("FAULT");
    if (text == NULL) return;
    set_fault(text);
    unsetenv("FAULT");
    unsetenv("LD_PRELOAD");
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static void hex(FILE *to, const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++) fprintf(to, "%02x", bytes[i]);
}

/* Notes a call: its name, result, position, the path, and another path or what was written. */
static void note(const char *call, long result, long position, const char *path, const void *data, size_t length) {
    if (notes < 0) return;
    int kept = errno;
    char *line = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&line, &size);
    fprintf(to, "%s %ld %ld ", call, result, position);
    hex(to, path, strlen(path));
    fputc(' ', to);
    hex(to, data, length);
    fputc('\n', to);
    fclose(to);
    syscall(SYS_write, notes, line, size);
    free(line);
    errno = kept;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int inside(const char *path) {
    return directory_length && strncmp(path, directory, directory_length) == 0 &&
           (path[directory_length] == '/' || path[directory_length] == 0);
}

/* Whether this call is one that goes wrong; counts it. Does not return where the program is to die before it. */
static int chosen(const char *call) {
    char name[32];
    snprintf(name, sizeof name, " %s ", call);
    if (strstr(counted, name) == NULL) return 0;
    long number = ++count;
    if (!*action || number < first || (number > first && strcmp(when, "once") == 0)) return 0;
    if (*when == '/' && syscall(SYS_access, when, F_OK) != 0) return 0;
    if (strcmp(action, "kill") == 0) die();
    if (strcmp(action, "stop") == 0) raise(SIGSTOP);
    return 1;
}

/* What becomes of a call that goes wrong: -1 with its error, or 0 where it takes effect all the same. */
static int fails(int wrong) {
    int number = atoi(action);
    if (!wrong || number == 0) return 0;
    errno = number;
    return -1;
}

static int skipped(int wrong) { return wrong && strcmp(action, "skip") == 0; }

/* How much of a write is made. */
static size_t part(int wrong, size_t length) {
    return wrong && strcmp(action, "short") == 0 && length > 4 ? length / 2 : length;
}

static void after(int wrong) {
    if (wrong && strcmp(action, "killed") == 0) die();
}

static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = directory_length ? readlink(link, path, PATH_MAX - 1) : 0;
    path[length > 0 ? length : 0] = 0;
    return inside(path) ? path : NULL;
}

static const char *path_at(int fd, const char *name, char *path) {
    if (directory_length && *name != '/' && fd != AT_FDCWD && path_of(fd, path)) {
        size_t length = strlen(path);
        snprintf(path + length, PATH_MAX - length, "/%s", name);
        return path;
    }
    return inside(name) ? name : NULL;
}

/* A call on a path or descriptor: `PATH` finds it, `REAL` does it; only what is in the directory goes wrong. */
#define THROUGH(TYPE, CALL, PATH, FAILED, REAL, DATA, LENGTH, POSITION)           \
    char buffer[PATH_MAX];                                                        \
    (void)buffer;                                                                 \
    const char *path = PATH;                                                      \
    int wrong = 0;                                                                \
    if (path == NULL) return REAL;                                                \
    wrong = chosen(CALL);                                                         \
    TYPE result = fails(wrong) ? FAILED : REAL;                                   \
    note(CALL, (long)result, POSITION, path, DATA, LENGTH);                       \
    after(wrong);                                                                 \
    return result;

static int opened(const char *symbol, int fd, const char *name, int flags, mode_t mode) {
    int (*real)(int, const char *, int, ...) = next(symbol);
    const char *call = flags & O_CREAT ? "create" : (flags & O_ACCMODE) == O_RDONLY ? "open" : "openw";
    THROUGH(int, call, path_at(fd, name, buffer), -1, real(fd, name, flags, mode), "", 0, flags)
}

#define MODE                                   \
    mode_t mode = 0;                           \
    if (flags & (O_CREAT | __O_TMPFILE)) {     \
        va_list list;                          \
        va_start(list, flags);                 \
        mode = va_arg(list, mode_t);           \
        va_end(list);                          \
    }

int open(const char *name, int flags, ...) { MODE return opened("openat", AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE return opened("openat64", AT_FDCWD, name, flags, mode); }
int openat(int fd, const char *name, int flags, ...) { MODE return opened("openat", fd, name, flags, mode); }
int openat64(int fd, const char *name, int flags, ...) { MODE return opened("openat64", fd, name, flags, mode); }

ssize_t write(int fd, const void *data, size_t length) {
    ssize_t (*real)(int, const void *, size_t) = next("write");
    char buffer[PATH_MAX];
    const char *path = path_of(fd, buffer);
    if (path == NULL && fd == 1 && directory_length) path = "stdout";
    if (path == NULL) return real(fd, data, length);
    const char *call = *path == '/' ? "write" : "answer";
    int wrong = chosen(call);
    ssize_t result = fails(wrong) ? -1 : real(fd, data, part(wrong, length));
    int kept = errno;
    note(call, result, lseek(fd, 0, SEEK_CUR) - result, path, data, result > 0 ? result : 0);
    errno = kept;
    after(wrong);
    return result;
}

#define WRITE_AT(NAME)                                                                                         \
    ssize_t NAME(int fd, const void *data, size_t length, off_t offset) {                                      \
        ssize_t (*real)(int, const void *, size_t, off_t) = next(#NAME);                                       \
        THROUGH(ssize_t, "pwrite", path_of(fd, buffer), -1, real(fd, data, part(wrong, length), offset), data, \
                part(wrong, length), offset)                                                                   \
    }
WRITE_AT(pwrite)
WRITE_AT(pwrite64)

#define READ_AT(NAME)                                                                                \
    ssize_t NAME(int fd, void *data, size_t length, off_t offset) {                                  \
        ssize_t (*real)(int, void *, size_t, off_t) = next(#NAME);                                   \
        THROUGH(ssize_t, "pread", path_of(fd, buffer), -1, real(fd, data, length, offset), "", 0, offset) \
    }
READ_AT(pread)
READ_AT(pread64)

ssize_t read(int fd, void *data, size_t length) {
    ssize_t (*real)(int, void *, size_t) = next("read");
    THROUGH(ssize_t, "read", path_of(fd, buffer), -1, real(fd, data, length), "", 0, 0)
}

#define ON_DESCRIPTOR(NAME)                                                  \
    int NAME(int fd) {                                                       \
        int (*real)(int) = next(#NAME);                                      \
        THROUGH(int, #NAME, path_of(fd, buffer), -1, skipped(wrong) ? 0 : real(fd), "", 0, 0) \
    }
ON_DESCRIPTOR(fsync)
ON_DESCRIPTOR(fdatasync)

#define WITH_ARGUMENT(SYMBOL, CALL, TYPE)                                                           \
    int SYMBOL(int fd, TYPE argument) {                                                             \
        int (*real)(int, TYPE) = next(#SYMBOL);                                                     \
        THROUGH(int, CALL, path_of(fd, buffer), -1, real(fd, argument), "", 0, (long)argument)      \
    }
WITH_ARGUMENT(ftruncate, "ftruncate", off_t)
WITH_ARGUMENT(ftruncate64, "ftruncate", off_t)
WITH_ARGUMENT(flock, "flock", int)
WITH_ARGUMENT(fchmod, "chmod", mode_t)

/* Only locks of a part of a file are meant; whatever else is asked of a descriptor takes effect. */
#define CONTROL(NAME)                                                                                \
    int NAME(int fd, int command, ...) {                                                             \
        int (*real)(int, int, ...) = next(#NAME);                                                    \
        va_list list;                                                                                \
        va_start(list, command);                                                                     \
        void *argument = va_arg(list, void *);                                                       \
        va_end(list);                                                                                \
        if (command != F_SETLK && command != F_SETLKW) return real(fd, command, argument);           \
        THROUGH(int, "lock", path_of(fd, buffer), -1, real(fd, command, argument), "", 0, command)   \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

int chmod(const char *name, mode_t mode) {
    int (*real)(const char *, mode_t) = next("chmod");
    THROUGH(int, "chmod", path_at(AT_FDCWD, name, buffer), -1, real(name, mode), "", 0, mode)
}

int mkdir(const char *name, mode_t mode) {
    int (*real)(const char *, mode_t) = next("mkdir");
    THROUGH(int, "mkdir", path_at(AT_FDCWD, name, buffer), -1, real(name, mode), "", 0, mode)
}

int unlink(const char *name) {
    int (*real)(const char *) = next("unlink");
    THROUGH(int, "unlink", path_at(AT_FDCWD, name, buffer), -1, real(name), "", 0, 0)
}

int rename(const char *old, const char *new) {
    int (*real)(const char *, const char *) = next("rename");
    THROUGH(int, "rename", path_at(AT_FDCWD, old, buffer), -1, real(old, new), new, strlen(new), 0)
}

DIR *opendir(const char *name) {
    DIR *(*real)(const char *) = next("opendir");
    THROUGH(DIR *, "opendir", path_at(AT_FDCWD, name, buffer), NULL, real(name), "", 0, 0)
}

#define MAP(NAME)                                                                                         \
    void *NAME(void *at, size_t length, int protection, int flags, int fd, off_t offset) {                \
        void *(*real)(void *, size_t, int, int, int, off_t) = next(#NAME);                                \
        THROUGH(void *, "mmap", fd < 0 ? NULL : path_of(fd, buffer), MAP_FAILED,                          \
                real(at, length, protection, flags, fd, offset), "", 0, offset)                           \
    }
MAP(mmap)
MAP(mmap64)

#define STATUS(NAME)                                                                                      \
    int NAME(const char *name, struct stat64 *facts) {                                                    \
        int (*real)(const char *, struct stat64 *) = next(#NAME);                                           \
        THROUGH(int, "stat", path_at(AT_FDCWD, name, buffer), -1, real(name, facts), "", 0, 0)            \
    }
STATUS(stat64)
STATUS(lstat64)

int fstat64(int fd, struct stat64 *facts) {
    int (*real)(int, struct stat64 *) = next("fstat64");
    THROUGH(int, "stat", path_of(fd, buffer), -1, real(fd, facts), "", 0, 0)
}
