/* Loaded into ptxas by LD_PRELOAD (ptxas_server.cc): stops it where it is about to open its input,
 * and lets a fork of it go on for every request. A request is a folder, a message on descriptor 4;
 * the answer is the fork's wait status. The fork finds its input in that folder, and prints into
 * the file kPrinted there. A first answer of 0 says that ptxas has come that far.
 *
 * Its own start costs ptxas a sixth of the time of a usual kernel. Of the rest a good part is the
 * memory's: pages of 4 KiB that are faulted in one by one, and that a program of 32 MB of code
 * finds in no cache of addresses. So the server's code moves to huge pages, which forks share, and
 * a fork gets its heap in fresh ones. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char kInput[] = "kernel.ptx"; /* kPtxasInput and kPtxasPrinted of ptxas_server.h */
static const char kPrinted[] = "printed";
enum { kLibrary = 3, kSocket = 4, kLongestPath = 4096, kAstray = SIGUSR1 };
static const uintptr_t kHugePage = (uintptr_t)2 << 20;
/* More than any bin of free memory is likely to hold, less than what malloc maps on its own. */
static const size_t kProbe = 100000;

static uintptr_t heap_begin; /* before ptxas took memory */

static uintptr_t RoundUp(uintptr_t at) { return (at + kHugePage - 1) & ~(kHugePage - 1); }
static uintptr_t RoundDown(uintptr_t at) { return at & ~(kHugePage - 1); }

static int HasHugePages(void) {
  char modes[64] = "";
  const int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, modes, sizeof(modes) - 1);
  close(file);
  return size > 0 && strstr(modes, "[never]") == NULL;
}

/* Fresh huge pages; NULL where there are none. */
static char* HugePages(size_t size) {
  char* const room =
      mmap(NULL, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return NULL;
  char* const pages = (char*)RoundUp((uintptr_t)room);
  if (pages > room) munmap(room, pages - room);
  munmap(pages + size, room + kHugePage - pages);
  madvise(pages, size, MADV_HUGEPAGE);
  return pages;
}

/* Puts the pages where others are, or gives them back. */
static void PutAt(uintptr_t place, char* pages, size_t size, int protection) {
  if (mprotect(pages, size, protection) != 0 ||
      mremap(pages, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void*)place) == MAP_FAILED) {
    munmap(pages, size);
  }
}

/* The first object is the program. Its code is read from its file: to copy it from where it is
 * would fault it in page by page. */
static int MoveCode(struct dl_phdr_info* object, size_t object_size, void* unused) {
  (void)object_size, (void)unused;
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  for (int i = 0; file >= 0 && i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & (PF_X | PF_W)) != PF_X) continue;
    const uintptr_t start = object->dlpi_addr + part->p_vaddr;
    const uintptr_t begin = RoundUp(start), end = RoundDown(start + part->p_filesz);
    char* const pages = end > begin ? HugePages(end - begin) : NULL;
    if (pages == NULL) continue;
    const size_t size = end - begin;
    if (pread(file, pages, size, part->p_offset + (begin - start)) == (ssize_t)size) {
      PutAt(begin, pages, size, PROT_READ | PROT_EXEC);
    } else {
      munmap(pages, size);
    }
  }
  if (file >= 0) close(file);
  return 1;
}

/* A fork's heap: what the server has used is copied at once, and not page by page as it is written;
 * what lies beyond is asked for in huge pages. */
static void MoveHeap(void) {
  void* const probe = malloc(kProbe);
  const uintptr_t used = (uintptr_t)probe, end = (uintptr_t)sbrk(0);
  free(probe);
  if (used < heap_begin || used >= end || RoundUp(used) > end) return; /* no such heap */
  const uintptr_t begin = RoundUp(heap_begin), size = RoundUp(used) - begin;
  char* const pages = size > 0 ? HugePages(size) : NULL;
  if (pages != NULL) PutAt(begin, memcpy(pages, (void*)begin, size), size, PROT_READ | PROT_WRITE);
  madvise((void*)RoundUp(used), end - RoundUp(used), MADV_HUGEPAGE);
}

/* Of a fork, which ends by kAstray when it cannot. It keeps its end of the socket, so that the
 * other end is told of a dead server only when no fork writes to the folder any more. */
static void EnterFolder(const char* folder) {
  const int printed =
      chdir(folder) == 0 ? open(kPrinted, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  if (printed >= 0 && dup2(printed, 1) >= 0 && dup2(printed, 2) >= 0) return;
  sigset_t none; /* whatever this process has inherited */
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(kAstray, SIG_DFL);
  raise(kAstray);
}

/* Returns in forks alone. */
static void Serve(void) {
  signal(SIGCHLD, SIG_DFL);
  const int huge_pages = HasHugePages();
  if (huge_pages) dl_iterate_phdr(MoveCode, NULL);
  const pid_t server = getpid();
  int status = 0;
  while (send(kSocket, &status, sizeof(status), MSG_NOSIGNAL) == sizeof(status)) {
    char folder[kLongestPath];
    const ssize_t size = recv(kSocket, folder, sizeof(folder) - 1, 0);
    if (size <= 0) break;
    folder[size] = '\0';
    const pid_t fork_id = fork();
    if (fork_id == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != server) raise(SIGKILL);
      if (huge_pages) MoveHeap();
      EnterFolder(folder);
      return;
    }
    if (fork_id < 0 || waitpid(fork_id, &status, 0) != fork_id) break;
  }
  _exit(0);
}

/* A script or another program that is called ptxas gets here too, and what it starts: none of that
 * is to find the library or hold the socket, whose end says that nobody serves. */
__attribute__((constructor)) static void Begin(void) {
  unsetenv("LD_PRELOAD");
  close(kLibrary);
  fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  close_range(kSocket + 1, ~0U, 0);
  heap_begin = (uintptr_t)sbrk(0);
}

FILE* fopen(const char* path, const char* mode) {
  static FILE* (*open_file)(const char*, const char*);
  static int serves;
  if (open_file == NULL) *(void**)&open_file = dlsym(RTLD_NEXT, "fopen");
  if (!serves && strcmp(path, kInput) == 0) {
    serves = 1;
    Serve();
  }
  return open_file(path, mode);
}
