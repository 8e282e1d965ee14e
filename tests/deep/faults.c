/* Loaded before libc (LD_PRELOAD): the Nth call of one kind, on a path under one directory, does not go as planned.
 *
 * FAULT_UNDER   the directory; calls on other paths are neither counted nor disturbed
 * FAULT_COUNTS  a file of sixteen u64, shared between processes: how many calls of each kind there have been
 * FAULT         "kind nth what times": what is an errno, or one of the negative numbers below; times 0 is "for ever"
 * FAULT_NO_LOCKS  no file can be locked, as on some network file systems
 * FAULT_CLOCK   so many seconds by which the wall clock jumps to and fro; the clock that nobody sets stays
 *
 * The variables are read when the library is loaded, and again by faults_arm().
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE, FSYNC, RENAME, OPEN, MKDIR, READ, STAT, MMAP, UNLINK, FLOCK, KINDS };
enum { KILL_BEFORE = -1, KILL_AFTER = -2, SHORT = -3, TORN = -4, STOP = -5 };
static const char *const NAMES[KINDS] = {"write", "fsync", "rename", "openat", "mkdir",
                                         "read",  "stat",  "mmap",   "unlink", "flock"};

static char under[PATH_MAX];
static size_t under_length;
static uint64_t private_counts[16];
static uint64_t *counts = private_counts;
static int fault_kind = -1, fault_what;
static uint64_t fault_first, fault_times;
static int no_locks;
static long clock_jump;

void faults_arm(void) {
    const char *directory = getenv("FAULT_UNDER"), *file = getenv("FAULT_COUNTS"), *fault = getenv("FAULT");
    const char *jump = getenv("FAULT_CLOCK");
    no_locks = getenv("FAULT_NO_LOCKS") != NULL;
    clock_jump = jump != NULL ? atol(jump) : 0;
    under_length = 0;
    fault_kind = -1;
    counts = private_counts;
    if (directory == NULL) return;
    if (file != NULL) {
        int handle = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (handle >= 0 && ftruncate(handle, sizeof private_counts) == 0) {
            void *shared = (void *)syscall(SYS_mmap, NULL, sizeof private_counts, PROT_READ | PROT_WRITE,
                                           MAP_SHARED, handle, 0);
            if (shared != MAP_FAILED) counts = shared;
        }
        syscall(SYS_close, handle);
    }
    if (fault != NULL) {
        char kind[16];
        unsigned long long first, times;
        int what;
        if (sscanf(fault, "%15s %llu %d %llu", kind, &first, &what, &times) == 4) {
            for (int k = 0; k < KINDS; k++)
                if (strcmp(kind, NAMES[k]) == 0) fault_kind = k;
            fault_first = first;
            fault_times = times;
            fault_what = what;
        }
    }
    snprintf(under, sizeof under, "%s", directory);
    under_length = strlen(under);
}

__attribute__((constructor)) static void start(void) { faults_arm(); }

static int is_under(const char *path) { return strncmp(path, under, under_length) == 0; }

static int concerns(int directory, const char *path) {
    if (under_length == 0 || path == NULL) return 0;
    if (path[0] == '/') return is_under(path);
    char link[40], found[PATH_MAX];
    if (directory == AT_FDCWD) return getcwd(found, sizeof found) != NULL && is_under(found);
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, found, sizeof found - 1);
    if (length < 0) return 0;
    found[length] = 0;
    return is_under(found);
}

static int concerns_handle(int handle) { return under_length != 0 && concerns(handle, "."); }

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* What this call shall do: 0 as it is, an errno, or a negative number. */
static int look(int kind) {
    uint64_t nth = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_SEQ_CST);
    if (kind != fault_kind || nth < fault_first) return 0;
    if (fault_times != 0 && nth >= fault_first + fault_times) return 0;
    if (fault_what == KILL_BEFORE) die();
    if (fault_what == STOP) syscall(SYS_kill, getpid(), SIGSTOP);
    return fault_what;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define CALL(kind, concerned, type, expression) \
    int what = (concerned) ? look(kind) : 0; \
    if (what > 0) { \
        errno = what; \
        return (type)-1; \
    } \
    type result = (expression); \
    if (what == KILL_AFTER) die(); \
    return result

/* Those that move bytes may also move half of them, and die after that. */
#define MOVE(kind, handle, length, call) \
    int what = concerns_handle(handle) ? look(kind) : 0; \
    if (what > 0) { \
        errno = what; \
        return -1; \
    } \
    size_t part = (what == SHORT || what == TORN) && (length) > 1 ? (length) / 2 : (length); \
    ssize_t result = (call); \
    if (what == KILL_AFTER || what == TORN) die(); \
    return result

ssize_t write(int handle, const void *data, size_t length) {
    REAL(write);
    MOVE(WRITE, handle, length, real(handle, data, part));
}
ssize_t pwrite(int handle, const void *data, size_t length, off_t at) {
    REAL(pwrite);
    MOVE(WRITE, handle, length, real(handle, data, part, at));
}
ssize_t pwrite64(int handle, const void *data, size_t length, off64_t at) {
    REAL(pwrite64);
    MOVE(WRITE, handle, length, real(handle, data, part, at));
}
ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL(writev);
    size_t length = count > 1 ? count : 1;
    MOVE(WRITE, handle, length, real(handle, parts, (int)part));
}
ssize_t sendfile(int to, int from, off_t *at, size_t length) {
    REAL(sendfile);
    MOVE(WRITE, to, length, real(to, from, at, part));
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t length) {
    REAL(sendfile64);
    MOVE(WRITE, to, length, real(to, from, at, part));
}
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t length, unsigned flags) {
    REAL(copy_file_range);
    MOVE(WRITE, to, length, real(from, at, to, to_at, part, flags));
}
ssize_t read(int handle, void *data, size_t length) {
    REAL(read);
    MOVE(READ, handle, length, real(handle, data, part));
}
ssize_t pread(int handle, void *data, size_t length, off_t at) {
    REAL(pread);
    MOVE(READ, handle, length, real(handle, data, part, at));
}
ssize_t pread64(int handle, void *data, size_t length, off64_t at) {
    REAL(pread64);
    MOVE(READ, handle, length, real(handle, data, part, at));
}
ssize_t readv(int handle, const struct iovec *parts, int count) {
    REAL(readv);
    size_t length = count > 1 ? count : 1;
    MOVE(READ, handle, length, real(handle, parts, (int)part));
}

int fsync(int handle) {
    REAL(fsync);
    CALL(FSYNC, concerns_handle(handle), int, real(handle));
}
int fdatasync(int handle) {
    REAL(fdatasync);
    CALL(FSYNC, concerns_handle(handle), int, real(handle));
}
int rename(const char *from, const char *to) {
    REAL(rename);
    CALL(RENAME, concerns(AT_FDCWD, to), int, real(from, to));
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(renameat);
    CALL(RENAME, concerns(b, to), int, real(a, from, b, to));
}
int link(const char *from, const char *to) {
    REAL(link);
    CALL(RENAME, concerns(AT_FDCWD, to), int, real(from, to));
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(linkat);
    CALL(RENAME, concerns(b, to), int, real(a, from, b, to, flags));
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    CALL(MKDIR, concerns(AT_FDCWD, path), int, real(path, mode));
}
int mkdirat(int directory, const char *path, mode_t mode) {
    REAL(mkdirat);
    CALL(MKDIR, concerns(directory, path), int, real(directory, path, mode));
}
int unlink(const char *path) {
    REAL(unlink);
    CALL(UNLINK, concerns(AT_FDCWD, path), int, real(path));
}
int unlinkat(int directory, const char *path, int flags) {
    REAL(unlinkat);
    CALL(UNLINK, concerns(directory, path), int, real(directory, path, flags));
}
int flock(int handle, int operation) {
    REAL(flock);
    if (no_locks) {
        errno = ENOLCK;
        return -1;
    }
    CALL(FLOCK, concerns_handle(handle), int, real(handle, operation));
}

#define MODE(flags, mode) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }
int open(const char *path, int flags, ...) {
    MODE(flags, mode)
    REAL(open);
    CALL(OPEN, concerns(AT_FDCWD, path), int, real(path, flags, mode));
}
int open64(const char *path, int flags, ...) {
    MODE(flags, mode)
    REAL(open64);
    CALL(OPEN, concerns(AT_FDCWD, path), int, real(path, flags, mode));
}
int openat(int directory, const char *path, int flags, ...) {
    MODE(flags, mode)
    REAL(openat);
    CALL(OPEN, concerns(directory, path), int, real(directory, path, flags, mode));
}
int openat64(int directory, const char *path, int flags, ...) {
    MODE(flags, mode)
    REAL(openat64);
    CALL(OPEN, concerns(directory, path), int, real(directory, path, flags, mode));
}
DIR *opendir(const char *path) {
    REAL(opendir);
    int what = concerns(AT_FDCWD, path) ? look(OPEN) : 0;
    if (what > 0) {
        errno = what;
        return NULL;
    }
    return real(path);
}

int stat(const char *path, struct stat *found) {
    REAL(stat);
    CALL(STAT, concerns(AT_FDCWD, path), int, real(path, found));
}
int stat64(const char *path, struct stat64 *found) {
    REAL(stat64);
    CALL(STAT, concerns(AT_FDCWD, path), int, real(path, found));
}
int fstatat(int directory, const char *path, struct stat *found, int flags) {
    REAL(fstatat);
    CALL(STAT, concerns(directory, path), int, real(directory, path, found, flags));
}
int fstatat64(int directory, const char *path, struct stat64 *found, int flags) {
    REAL(fstatat64);
    CALL(STAT, concerns(directory, path), int, real(directory, path, found, flags));
}

void *mmap(void *at, size_t length, int protection, int flags, int handle, off_t offset) {
    REAL(mmap);
    CALL(MMAP, handle >= 0 && concerns_handle(handle), void *, real(at, length, protection, flags, handle, offset));
}
void *mmap64(void *at, size_t length, int protection, int flags, int handle, off64_t offset) {
    REAL(mmap64);
    CALL(MMAP, handle >= 0 && concerns_handle(handle), void *, real(at, length, protection, flags, handle, offset));
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    static int asked;
    int result = real(clock, now);
    if (clock_jump != 0 && clock == CLOCK_REALTIME && result == 0)
        now->tv_sec += clock_jump * (__atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) % 3 - 1);
    return result;
}
