/* What the stand-ins are told from outside, by environment variables or by lines NAME=VALUE of the
 * file fake_cuda.conf beside the library (the children of a worker see few variables):
 *   FAKE_CUDA_DEVICES      how many there are, at most 8; default 1
 *   FAKE_CUDA_KERNEL_US    an artifact's kernel keeps its device busy for one to three times that:
 *                          one of twelve lengths, by grid and threads; default 0
 *   FAKE_CUDA_OTHERS       devices from this number on are of another model; default none
 *   FAKE_CUDA_CLOCK_KHZ, FAKE_CUDA_MEMORY_KHZ, FAKE_CUDA_MEMORY_BITS
 *                          clocks of the SMs and the memory, and its bus; default 0
 *   FAKE_CUDA_START_US     a context takes that to make; default 0
 *   FAKE_CUDA_ZONE         an artifact's kernel writes two times its first argument to its second,
 *                          each an allocation of floats but for so many bytes at both ends;
 *                          default 0: it writes nothing
 *   FAKE_NVML_ECC          uncorrected errors of the first device, looked up each time;
 *                          default 0
 *   FAKE_CUDA_FOLDER       shared between processes: in gpu<n>/, a file for each process that has a
 *                          context, and the log of kernels; default none */
#ifndef KILN_TESTS_UTIL_FAKE_CUDA_FAKE_SETTINGS_H_
#define KILN_TESTS_UTIL_FAKE_CUDA_FAKE_SETTINGS_H_

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 8, MOST_TEXT = 512 };

/* 0 where it is not set. */
static inline int fake_setting(const char* name, char value[MOST_TEXT]) {
  const char* own = getenv(name);
  if (own) return snprintf(value, MOST_TEXT, "%s", own) < MOST_TEXT;
  Dl_info self;
  char path[MOST_TEXT], line[MOST_TEXT];
  if (!dladdr((void*)(size_t)fake_setting, &self)) return 0;
  const char* end = strrchr(self.dli_fname, '/');
  const int length = end ? (int)(end - self.dli_fname) : 0;
  if (snprintf(path, MOST_TEXT, "%.*s/fake_cuda.conf", length, self.dli_fname) >= MOST_TEXT)
    return 0;
  FILE* file = fopen(path, "r");
  const size_t size = strlen(name);
  int found = 0;
  while (file && !found && fgets(line, MOST_TEXT, file)) {
    found = strncmp(line, name, size) == 0 && line[size] == '=';
    if (found)
      snprintf(value, MOST_TEXT, "%.*s", (int)strcspn(line + size + 1, "\n"), line + size + 1);
  }
  if (file) fclose(file);
  return found;
}

static inline long fake_number(const char* name, long otherwise) {
  char value[MOST_TEXT];
  return fake_setting(name, value) ? atol(value) : otherwise;
}

/* 0 where there is no such folder. */
static inline int fake_folder(int device, char path[MOST_TEXT]) {
  char folder[MOST_TEXT];
  return fake_setting("FAKE_CUDA_FOLDER", folder) && folder[0] &&
         snprintf(path, MOST_TEXT, "%s/gpu%d", folder, device) < MOST_TEXT;
}

#endif /* KILN_TESTS_UTIL_FAKE_CUDA_FAKE_SETTINGS_H_ */
