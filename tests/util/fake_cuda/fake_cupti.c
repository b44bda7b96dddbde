/* CUPTI without a GPU, for tests: libcupti.so.13 as far as the runner uses it. It records what the
 * driver of the tests (fake_cuda.c) runs, by that driver's own clock, and spoils what it delivers
 * as a test asks. Its counters are the numbers of fake_counter(), in three passes. FAKE_CUPTI_BUSY
 * in the environment: another profiler has it. */
#include <stddef.h>
#include <stdint.h>

#include "fake_settings.h"

typedef int Result;
enum { OK = 0, INVALID = 1, NO_MORE = 12, BUSY = 39 };
enum { KERNEL = 10, MEMSET = 2, MOST_RECORDS = 4096, RECORD_BYTES = 208, PASSES = 3 };
static const double kEpochNs = 1e9; /* so that no time is zero by chance */

/* What is wrong with what is delivered; the numbers are a test's. */
enum { GOOD = 0, TIMELESS = 1, LOST = 2, LATE = 3, BACKWARDS = 4, SHUFFLED = 5, UNFLUSHED = 6 };
static int mode, spoilt; /* so many flushes are still to be; -1: all */
static double scale = 1; /* of the times between begin and end */

struct Record {
  uint64_t begin, end;
  uint32_t correlation;
};
static struct Record pending[MOST_RECORDS];
static int count;
static uint32_t correlation;
static size_t lost;

typedef void (*Request)(uint8_t**, size_t*, size_t*);
typedef void (*Complete)(void*, uint32_t, uint8_t*, size_t, size_t);
static Request request;
static Complete complete;

void fake_cupti_spoil(int how, int flushes) { mode = how, spoilt = flushes; }
void fake_cupti_scale(double factor) { scale = factor; }

static void* driver(const char* function) {
  return dlsym(dlopen("libcuda.so.1", RTLD_NOW), function);
}
static void observe(double begin_us, double end_us) {
  if (count == MOST_RECORDS) count = 0; /* nobody took them */
  const double begin = kEpochNs + begin_us * 1e3;
  pending[count++] = (struct Record){
      (uint64_t)begin, (uint64_t)(begin + (end_us - begin_us) * 1e3 * scale), ++correlation};
}

Result cuptiGetVersion(uint32_t* version) { return *version = 130000, OK; }
Result cuptiGetTimestamp(uint64_t* now) {
  double (*clock_us)(void) = (double (*)(void))driver("fake_cuda_virtual_us");
  return *now = (uint64_t)(kEpochNs + clock_us() * 1e3), OK;
}
Result cuptiActivityRegisterCallbacks(Request on_request, Complete on_complete) {
  return request = on_request, complete = on_complete, OK;
}
Result cuptiActivityEnable(int kind) {
  if (kind != KERNEL || fake_number("FAKE_CUPTI_BUSY", 0)) return BUSY;
  void (*watch)(void (*)(double, double)) =
      (void (*)(void (*)(double, double)))driver("fake_cuda_observe");
  return watch(observe), OK;
}

/* Records as CUPTI writes them, with one of another kind before them. */
static void deliver(const struct Record* from, int n, int without_times, int backwards) {
  uint8_t* buffer = NULL;
  size_t size = 0, most = 0;
  request(&buffer, &size, &most);
  if (!buffer || size < (size_t)(n + 1) * RECORD_BYTES) abort();
  memset(buffer, 0, (size_t)(n + 1) * RECORD_BYTES);
  *(uint32_t*)(void*)buffer = MEMSET;
  for (int i = 0; i < n; ++i) {
    uint8_t* record = buffer + (size_t)(i + 1) * RECORD_BYTES;
    *(uint32_t*)(void*)record = KERNEL;
    uint64_t* times = (uint64_t*)(void*)(record + 16);
    times[0] = from[i].begin, times[1] = from[i].end;
    if (without_times && i == n - 1) times[0] = times[1] = 0;
    if (backwards && i == n - 1) times[1] = times[0] - 1;
    *(uint32_t*)(void*)(record + 92) = from[i].correlation;
  }
  complete(NULL, 0, buffer, size, (size_t)(n + 1) * RECORD_BYTES);
}
Result cuptiActivityFlushAll(uint32_t flags) {
  if (flags) return INVALID;
  const int how = spoilt ? mode : GOOD;
  if (spoilt > 0) --spoilt;
  if (how == UNFLUSHED) return INVALID;
  const int n = count, half = n / 2;
  count = 0;
  if (how == SHUFFLED) {
    deliver(pending + half, n - half, 0, 0);
    deliver(pending, half, 0, 0);
  } else if (how == LATE) { /* the second half comes with the next flush */
    deliver(pending, n - half, 0, 0);
    memmove(pending, pending + n - half, (size_t)half * sizeof(pending[0]));
    count = half;
  } else {
    lost = how == LOST && n ? 1 : 0;
    deliver(pending, n - (int)lost, how == TIMELESS, how == BACKWARDS);
  }
  return OK;
}
Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  uint8_t* next = *record ? *record + RECORD_BYTES : buffer;
  if (next + RECORD_BYTES > buffer + valid) return NO_MORE;
  return *record = next, OK;
}
Result cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* dropped) {
  (void)context, (void)stream;
  return *dropped = lost, lost = 0, OK;
}

#ifndef FAKE_CUPTI_OLD /* the range profiler, since CUDA 12.6 */
static const char* failing = "";
static int failure;
void fake_cupti_fail(const char* function, int result) { failing = function, failure = result; }

/* Each takes one block: its size, null, its fields. */
struct Block {
  size_t size;
  void* reserved;
  uint64_t fields[8];
};
static int pass;
static Result call(const char* name, const struct Block* block) {
  if (strcmp(failing, name) == 0) return failure;
  return block->size >= 16 && !block->reserved ? OK : INVALID;
}
static double fake_counter(const char* metric) {
  return strstr(metric, "dram__bytes_read") ? 4096 : 50;
}
#define PLAIN(name) \
  Result name(struct Block* block) { return call(#name, block); }
PLAIN(cuptiProfilerInitialize)
PLAIN(cuptiProfilerHostDeinitialize)
PLAIN(cuptiProfilerHostGetConfigImage)
PLAIN(cuptiRangeProfilerDisable)
PLAIN(cuptiRangeProfilerCounterDataImageInitialize)
PLAIN(cuptiRangeProfilerStart)
PLAIN(cuptiRangeProfilerPushRange)
PLAIN(cuptiRangeProfilerPopRange)
PLAIN(cuptiRangeProfilerDecodeData)
Result cuptiDeviceGetChipName(struct Block* block) {
  block->fields[1] = (uint64_t)(uintptr_t) "GH100";
  return call("cuptiDeviceGetChipName", block);
}
Result cuptiProfilerHostInitialize(struct Block* block) {
  block->fields[3] = 1;
  return call("cuptiProfilerHostInitialize", block);
}
/* This chip has no warps that wait for such products. */
Result cuptiProfilerHostConfigAddMetrics(struct Block* block) {
  const char** names = (const char**)(uintptr_t)block->fields[1];
  return strstr(names[0], "gmma") ? INVALID : call("cuptiProfilerHostConfigAddMetrics", block);
}
Result cuptiProfilerHostGetConfigImageSize(struct Block* block) {
  block->fields[1] = 64;
  return call("cuptiProfilerHostGetConfigImageSize", block);
}
Result cuptiRangeProfilerEnable(struct Block* block) {
  block->fields[1] = 1;
  return call("cuptiRangeProfilerEnable", block);
}
Result cuptiRangeProfilerGetCounterDataSize(struct Block* block) {
  block->fields[5] = 64;
  return call("cuptiRangeProfilerGetCounterDataSize", block);
}
Result cuptiRangeProfilerSetConfig(struct Block* block) {
  pass = 0;
  return call("cuptiRangeProfilerSetConfig", block);
}
Result cuptiRangeProfilerStop(struct Block* block) {
  *(uint8_t*)&block->fields[3] = ++pass == PASSES;
  return call("cuptiRangeProfilerStop", block);
}
Result cuptiProfilerHostEvaluateToGpuValues(struct Block* block) {
  const char** names = (const char**)(uintptr_t)block->fields[4];
  double* values = (double*)(uintptr_t)block->fields[6];
  for (uint64_t i = 0; i < block->fields[5]; ++i) values[i] = fake_counter(names[i]);
  return call("cuptiProfilerHostEvaluateToGpuValues", block);
}
#endif
