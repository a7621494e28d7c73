// A library to preload: one kind of call of the process fails from its n-th use on, or that once.
// The rest of the process is as it is.
//
//   SPARCL_TEST_FAIL_KIND    allocation, map, write, read, sync, rename, open, truncate, close,
//                            thread, socket, send, receive or folder
//   SPARCL_TEST_FAIL_AT      the first use that fails, from 1; 0: none does
//   SPARCL_TEST_FAIL_ALWAYS  1: all later ones fail, too
//   SPARCL_TEST_FAIL_COUNT   a file that gets the number of uses when the process ends
//   SPARCL_TEST_FAIL_SPARED  names of libraries, with commas: their own calls do not fail
//
// glibc only: it has its own names for what is replaced here.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

enum kind {
  NONE,
  ALLOCATION,
  MAP,
  WRITE,
  READ,
  SYNC,
  RENAME,
  OPEN,
  TRUNCATE,
  CLOSE,
  THREAD,
  SOCKET,
  SEND,
  RECEIVE,
  FOLDER,
  KINDS
};

static const char* const kind_names[KINDS] = {"",       "allocation", "map",  "write",    "read",
                                              "sync",   "rename",     "open", "truncate", "close",
                                              "thread", "socket",     "send", "receive",  "folder"};

static enum kind failing = NONE;
static long first;
static int always;
static const char* spared;
static volatile long uses;
static volatile int has_failed;

__attribute__((constructor)) static void read_wishes(void) {
  const char* const kind = getenv("SPARCL_TEST_FAIL_KIND");
  const char* const at = getenv("SPARCL_TEST_FAIL_AT");
  const char* const more = getenv("SPARCL_TEST_FAIL_ALWAYS");
  spared = getenv("SPARCL_TEST_FAIL_SPARED");
  first = at != NULL ? atol(at) : 0;
  always = more != NULL && *more == '1';
  for (int i = 1; kind != NULL && i < KINDS; ++i) {
    if (strcmp(kind, kind_names[i]) == 0) failing = (enum kind)i;
  }
}

__attribute__((destructor)) static void write_count(void) {
  const char* const path = getenv("SPARCL_TEST_FAIL_COUNT");
  failing = NONE;
  FILE* const file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%ld\n", uses);
  fclose(file);
}

// Whether the code at `caller` is in a library whose name begins as one of those that are spared.
// The dynamic linker always is: it ends the process where memory for a thread's variables is
// missing.
static int is_spared(const void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return 0;
  const char* const slash = strrchr(info.dli_fname, '/');
  const char* const name = slash != NULL ? slash + 1 : info.dli_fname;
  if (strncmp(name, "ld-", 3) == 0) return 1;
  for (const char* each = spared; each != NULL && *each != '\0';) {
    const size_t length = strcspn(each, ",");
    if (length > 0 && strncmp(name, each, length) == 0) return 1;
    each += length + (each[length] == ',');
  }
  return 0;
}

static int fails(enum kind kind, const void* caller) {
  if (kind != failing) return 0;
  const long use = __sync_add_and_fetch(&uses, 1);
  if (first <= 0 || use < first || (has_failed && !always)) return 0;
  static __thread int is_asking;  // dladdr may allocate
  if (is_asking) return 0;
  is_asking = 1;
  const int spares = is_spared(caller);
  is_asking = 0;
  if (spares) return 0;
  return always || __sync_bool_compare_and_swap(&has_failed, 0, 1);
}

#define FAILS(kind) fails(kind, __builtin_return_address(0))
#define REFUSE(kind, error, value) \
  do {                             \
    if (FAILS(kind)) {             \
      errno = error;               \
      return value;                \
    }                              \
  } while (0)

// The function that is replaced.
#define REAL(name) ((__typeof__(&name))real(#name))
static void* real(const char* name) { return dlsym(RTLD_NEXT, name); }

void* malloc(size_t bytes) {
  REFUSE(ALLOCATION, ENOMEM, NULL);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  REFUSE(ALLOCATION, ENOMEM, NULL);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  if (bytes > 0) REFUSE(ALLOCATION, ENOMEM, NULL);
  return __libc_realloc(old, bytes);
}
void* reallocarray(void* old, size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) all = (size_t)-1;
  if (all > 0) REFUSE(ALLOCATION, ENOMEM, NULL);
  return __libc_realloc(old, all);
}
char* strdup(const char* text) {
  REFUSE(ALLOCATION, ENOMEM, NULL);
  const size_t bytes = strlen(text) + 1;
  char* const copy = __libc_malloc(bytes);
  return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  REFUSE(ALLOCATION, ENOMEM, NULL);
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  REFUSE(ALLOCATION, ENOMEM, NULL);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** made, size_t alignment, size_t bytes) {
  if (FAILS(ALLOCATION)) return ENOMEM;
  void* const memory = __libc_memalign(alignment, bytes);
  if (memory == NULL) return ENOMEM;
  *made = memory;
  return 0;
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  REFUSE(MAP, ENOMEM, MAP_FAILED);
  return REAL(mmap)(at, bytes, protection, flags, file, offset);
}
void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off64_t offset) {
  REFUSE(MAP, ENOMEM, MAP_FAILED);
  return REAL(mmap64)(at, bytes, protection, flags, file, offset);
}

// What goes to the three standard descriptors is another test's.
ssize_t write(int file, const void* bytes, size_t count) {
  if (file > 2) REFUSE(WRITE, ENOSPC, -1);
  return REAL(write)(file, bytes, count);
}
ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) {
  REFUSE(WRITE, ENOSPC, -1);
  return REAL(pwrite)(file, bytes, count, at);
}
ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t at) {
  REFUSE(WRITE, ENOSPC, -1);
  return REAL(pwrite64)(file, bytes, count, at);
}
ssize_t writev(int file, const struct iovec* parts, int count) {
  if (file > 2) REFUSE(WRITE, ENOSPC, -1);
  return REAL(writev)(file, parts, count);
}
ssize_t read(int file, void* bytes, size_t count) {
  REFUSE(READ, EIO, -1);
  return REAL(read)(file, bytes, count);
}
ssize_t pread(int file, void* bytes, size_t count, off_t at) {
  REFUSE(READ, EIO, -1);
  return REAL(pread)(file, bytes, count, at);
}
ssize_t pread64(int file, void* bytes, size_t count, off64_t at) {
  REFUSE(READ, EIO, -1);
  return REAL(pread64)(file, bytes, count, at);
}
ssize_t readv(int file, const struct iovec* parts, int count) {
  REFUSE(READ, EIO, -1);
  return REAL(readv)(file, parts, count);
}
int fsync(int file) {
  REFUSE(SYNC, EIO, -1);
  return REAL(fsync)(file);
}
int fdatasync(int file) {
  REFUSE(SYNC, EIO, -1);
  return REAL(fdatasync)(file);
}
int rename(const char* from, const char* to) {
  REFUSE(RENAME, EIO, -1);
  return REAL(rename)(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  REFUSE(RENAME, EIO, -1);
  return REAL(renameat2)(from_folder, from, to_folder, to, flags);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  REFUSE(RENAME, EIO, -1);
  return REAL(linkat)(from_folder, from, to_folder, to, flags);
}

static mode_t mode_of(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}
#define READ_MODE(flags)                    \
  va_list rest;                             \
  va_start(rest, flags);                    \
  const mode_t mode = mode_of(flags, rest); \
  va_end(rest)

int open(const char* path, int flags, ...) {
  READ_MODE(flags);
  REFUSE(OPEN, EMFILE, -1);
  return REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  READ_MODE(flags);
  REFUSE(OPEN, EMFILE, -1);
  return REAL(open64)(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  READ_MODE(flags);
  REFUSE(OPEN, EMFILE, -1);
  return REAL(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  READ_MODE(flags);
  REFUSE(OPEN, EMFILE, -1);
  return REAL(openat64)(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  REFUSE(OPEN, EMFILE, NULL);
  return REAL(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  REFUSE(OPEN, EMFILE, NULL);
  return REAL(fopen64)(path, mode);
}
DIR* opendir(const char* path) {
  REFUSE(OPEN, EMFILE, NULL);
  return REAL(opendir)(path);
}
int memfd_create(const char* name, unsigned flags) {
  REFUSE(OPEN, EMFILE, -1);
  return REAL(memfd_create)(name, flags);
}
int ftruncate(int file, off_t bytes) {
  REFUSE(TRUNCATE, ENOSPC, -1);
  return REAL(ftruncate)(file, bytes);
}
int ftruncate64(int file, off64_t bytes) {
  REFUSE(TRUNCATE, ENOSPC, -1);
  return REAL(ftruncate64)(file, bytes);
}
int posix_fallocate(int file, off_t from, off_t bytes) {
  if (FAILS(TRUNCATE)) return ENOSPC;
  return REAL(posix_fallocate)(file, from, bytes);
}
int posix_fallocate64(int file, off64_t from, off64_t bytes) {
  if (FAILS(TRUNCATE)) return ENOSPC;
  return REAL(posix_fallocate64)(file, from, bytes);
}
// The descriptor is closed all the same, as Linux does.
int close(int file) {
  const int result = REAL(close)(file);
  REFUSE(CLOSE, EIO, -1);
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  if (FAILS(THREAD)) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, run, argument);
}

int socket(int domain, int type, int protocol) {
  REFUSE(SOCKET, EMFILE, -1);
  return REAL(socket)(domain, type, protocol);
}
int socketpair(int domain, int type, int protocol, int ends[2]) {
  REFUSE(SOCKET, EMFILE, -1);
  return REAL(socketpair)(domain, type, protocol, ends);
}
int accept4(int file, struct sockaddr* address, socklen_t* bytes, int flags) {
  REFUSE(SOCKET, EMFILE, -1);
  return REAL(accept4)(file, address, bytes, flags);
}
int connect(int file, const struct sockaddr* address, socklen_t bytes) {
  REFUSE(SOCKET, ENOBUFS, -1);
  return REAL(connect)(file, address, bytes);
}
int bind(int file, const struct sockaddr* address, socklen_t bytes) {
  REFUSE(SOCKET, ENOBUFS, -1);
  return REAL(bind)(file, address, bytes);
}
int listen(int file, int count) {
  REFUSE(SOCKET, ENOBUFS, -1);
  return REAL(listen)(file, count);
}
int eventfd(unsigned value, int flags) {
  REFUSE(SOCKET, EMFILE, -1);
  return REAL(eventfd)(value, flags);
}
int epoll_create1(int flags) {
  REFUSE(SOCKET, EMFILE, -1);
  return REAL(epoll_create1)(flags);
}
int pipe2(int ends[2], int flags) {
  REFUSE(SOCKET, EMFILE, -1);
  return REAL(pipe2)(ends, flags);
}
ssize_t send(int file, const void* bytes, size_t count, int flags) {
  REFUSE(SEND, ENOBUFS, -1);
  return REAL(send)(file, bytes, count, flags);
}
ssize_t sendto(int file, const void* bytes, size_t count, int flags, const struct sockaddr* address,
               socklen_t size) {
  REFUSE(SEND, ENOBUFS, -1);
  return REAL(sendto)(file, bytes, count, flags, address, size);
}
ssize_t sendmsg(int file, const struct msghdr* message, int flags) {
  REFUSE(SEND, ENOBUFS, -1);
  return REAL(sendmsg)(file, message, flags);
}
ssize_t recv(int file, void* bytes, size_t count, int flags) {
  REFUSE(RECEIVE, ENOMEM, -1);
  return REAL(recv)(file, bytes, count, flags);
}
ssize_t recvfrom(int file, void* bytes, size_t count, int flags, struct sockaddr* address,
                 socklen_t* size) {
  REFUSE(RECEIVE, ENOMEM, -1);
  return REAL(recvfrom)(file, bytes, count, flags, address, size);
}
ssize_t recvmsg(int file, struct msghdr* message, int flags) {
  REFUSE(RECEIVE, ENOMEM, -1);
  return REAL(recvmsg)(file, message, flags);
}
int mkdir(const char* path, mode_t mode) {
  REFUSE(FOLDER, ENOSPC, -1);
  return REAL(mkdir)(path, mode);
}
