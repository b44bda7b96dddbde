/* What a CPU artifact needs at run time: a small thread pool and scratch memory. Compiled to LLVM
 * bitcode when Kiln is built, linked into every artifact's module and made internal, so that
 * artifacts share no symbol and depend on libc alone.
 *
 * One launch runs at a time on an artifact's pool; a second caller that finds it busy runs its
 * blocks on its own thread. Blocks are handed out dynamically in small chunks. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kiln_launch.h"

#define KILN_MAX_THREADS 1024
#define KILN_SCRATCH_ALIGN 4096
#define KILN_SPINS 2000 /* about 50 us of pauses before a worker sleeps */

typedef void (*kiln_block)(void* args, int64_t block, void* scratch);

/* ---- scratch memory: a free list, so that steady state allocates nothing ---- */

typedef struct scratch {
  struct scratch* next;
  uint64_t bytes;
} scratch; /* the usable memory starts KILN_SCRATCH_ALIGN bytes after the header */

static pthread_mutex_t scratch_lock = PTHREAD_MUTEX_INITIALIZER;
static scratch* scratch_free;

static scratch* scratch_take(uint64_t bytes) {
  pthread_mutex_lock(&scratch_lock);
  scratch** link = &scratch_free;
  while (*link && (*link)->bytes < bytes) link = &(*link)->next;
  scratch* found = *link;
  if (found) *link = found->next;
  pthread_mutex_unlock(&scratch_lock);
  if (found) return found;
  const uint64_t rounded =
      (bytes + KILN_SCRATCH_ALIGN - 1) / KILN_SCRATCH_ALIGN * KILN_SCRATCH_ALIGN;
  void* memory = 0;
  if (posix_memalign(&memory, KILN_SCRATCH_ALIGN, rounded + KILN_SCRATCH_ALIGN)) return 0;
  found = memory;
  found->bytes = rounded;
  return found;
}

static void scratch_give(scratch* s) {
  pthread_mutex_lock(&scratch_lock);
  s->next = scratch_free;
  scratch_free = s;
  pthread_mutex_unlock(&scratch_lock);
}

static void* scratch_memory(scratch* s) { return (char*)s + KILN_SCRATCH_ALIGN; }

/* ---- one launch ---- */

typedef struct job {
  kiln_block body;
  void* args;
  int64_t count;
  int64_t chunk;
  uint64_t scratch_bytes;
  atomic_llong next;
  atomic_int error;
} job;

static void job_work(job* j) {
  scratch* s = 0;
  void* memory = 0;
  if (j->scratch_bytes) {
    s = scratch_take(j->scratch_bytes);
    if (!s) {
      atomic_store(&j->error, KILN_ERROR_MEMORY);
      return;
    }
    memory = scratch_memory(s);
  }
  for (;;) {
    const int64_t first = atomic_fetch_add(&j->next, j->chunk);
    if (first >= j->count) break;
    const int64_t last = first + j->chunk < j->count ? first + j->chunk : j->count;
    for (int64_t i = first; i < last; ++i) j->body(j->args, i, memory);
  }
  if (s) scratch_give(s);
}

/* ---- the built-in pool ---- */

static struct {
  pthread_mutex_t owner; /* held by the launch that uses the pool */
  pthread_mutex_t lock;  /* guards what follows, with the two conditions */
  pthread_cond_t wake;
  pthread_cond_t idle;
  pthread_t threads[KILN_MAX_THREADS];
  int count; /* threads started */
  pid_t pid; /* of the process that started them: a fork has none */
  job* current;
  int wanted; /* workers that may still join the current job */
  int active; /* workers inside it */
  int stop;
  atomic_uint generation;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
          PTHREAD_COND_INITIALIZER};

static void* pool_main(void* unused) {
  (void)unused;
  unsigned seen = 0;
  for (;;) {
    for (int i = 0; i < KILN_SPINS && atomic_load(&pool.generation) == seen; ++i) {
      __builtin_ia32_pause();
    }
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.generation) == seen && !pool.stop) {
      pthread_cond_wait(&pool.wake, &pool.lock);
    }
    if (pool.stop) {
      pthread_mutex_unlock(&pool.lock);
      return 0;
    }
    seen = atomic_load(&pool.generation);
    job* j = 0;
    if (pool.current && pool.wanted > 0) {
      j = pool.current;
      --pool.wanted;
      ++pool.active;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!j) continue;
    job_work(j);
    pthread_mutex_lock(&pool.lock);
    if (--pool.active == 0) pthread_cond_signal(&pool.idle);
    pthread_mutex_unlock(&pool.lock);
  }
}

/* Grows the pool to `workers` threads as far as the system lets it. Called with `lock` held. */
static void pool_grow(int workers) {
  if (pool.pid != getpid()) {
    pool.count = 0;
    pool.pid = getpid();
  }
  while (pool.count < workers && pool.count < KILN_MAX_THREADS) {
    if (pthread_create(&pool.threads[pool.count], 0, pool_main, 0)) return;
    ++pool.count;
  }
}

static void pool_run(job* j, int workers) {
  pthread_mutex_lock(&pool.lock);
  pool_grow(workers);
  pool.current = j;
  pool.wanted = workers;
  atomic_fetch_add(&pool.generation, 1);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  job_work(j);
  pthread_mutex_lock(&pool.lock);
  pool.current = 0;
  pool.wanted = 0;
  while (pool.active > 0) pthread_cond_wait(&pool.idle, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
}

__attribute__((destructor)) static void pool_stop(void) {
  pthread_mutex_lock(&pool.lock);
  pool.stop = 1;
  pthread_cond_broadcast(&pool.wake);
  const int count = pool.pid == getpid() ? pool.count : 0;
  pthread_mutex_unlock(&pool.lock);
  for (int i = 0; i < count; ++i) pthread_join(pool.threads[i], 0);
  while (scratch_free) {
    scratch* next = scratch_free->next;
    free(scratch_free);
    scratch_free = next;
  }
}

/* ---- entry ---- */

static int usable_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  const int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

static void one_task(void* context, int64_t index) {
  job* j = context;
  scratch* s = 0;
  if (j->scratch_bytes) {
    s = scratch_take(j->scratch_bytes);
    if (!s) {
      atomic_store(&j->error, KILN_ERROR_MEMORY);
      return;
    }
  }
  const int64_t first = index * j->chunk;
  const int64_t last = first + j->chunk < j->count ? first + j->chunk : j->count;
  for (int64_t i = first; i < last; ++i) j->body(j->args, i, s ? scratch_memory(s) : 0);
  if (s) scratch_give(s);
}

static int has_field(const kiln_launch* l, size_t end) { return l && l->size >= end; }

/* Runs body for every block. Returns 0 or a negative kiln_error. */
int32_t kiln_rt_run(const kiln_launch* launch, int64_t count, kiln_block body, void* args,
                    uint64_t scratch_bytes) {
  if (count <= 0) return KILN_OK;
  job j = {body, args, count, 1, scratch_bytes};
  atomic_init(&j.next, 0);
  atomic_init(&j.error, KILN_OK);
  if (has_field(launch, offsetof(kiln_launch, pool) + sizeof(void*)) && launch->parallel_for) {
    j.chunk = count > 4096 ? count / 4096 : 1;
    launch->parallel_for(launch->pool, (count + j.chunk - 1) / j.chunk, one_task, &j);
    return atomic_load(&j.error);
  }
  int threads = 0;
  if (has_field(launch, offsetof(kiln_launch, threads) + sizeof(int32_t)))
    threads = launch->threads;
  if (threads <= 0) threads = usable_cores();
  if (threads > count) threads = (int)count;
  if (threads > KILN_MAX_THREADS) threads = KILN_MAX_THREADS;
  j.chunk = count / ((int64_t)threads * 32);
  if (j.chunk < 1) j.chunk = 1;
  if (j.chunk > 64) j.chunk = 64;
  if (threads == 1 || pthread_mutex_trylock(&pool.owner)) {
    job_work(&j);
  } else {
    pool_run(&j, threads - 1);
    pthread_mutex_unlock(&pool.owner);
  }
  return atomic_load(&j.error);
}

/* The system grants a process the tile registers of AMX when it asks, for all its threads. It
 * refuses where the processor has none (every one that has them multiplies bfloat16) and where it
 * is told to. Asking twice is harmless. Returns 0 or KILN_ERROR_UNSUPPORTED. */
int32_t kiln_rt_tiles(void) {
  enum { request_permission = 0x1023, tile_data = 18 };
  static atomic_int granted;
  if (atomic_load(&granted)) return KILN_OK;
  if (syscall(SYS_arch_prctl, request_permission, tile_data)) return KILN_ERROR_UNSUPPORTED;
  atomic_store(&granted, 1);
  return KILN_OK;
}

/* Workspace of a whole call (alloc_global), from the same free list. Null when out of memory. */
void* kiln_rt_workspace(uint64_t bytes) {
  scratch* s = scratch_take(bytes);
  return s ? scratch_memory(s) : 0;
}

void kiln_rt_release(void* memory) {
  if (memory) scratch_give((scratch*)((char*)memory - KILN_SCRATCH_ALIGN));
}
