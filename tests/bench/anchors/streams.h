/* The inner loops of the anchors, compiled by each compiler at hand (see CMakeLists.txt), because
 * which one turns out the faster loop is not the same on every machine: a rival is at its best. */
#ifndef KILN_TESTS_BENCH_ANCHORS_STREAMS_H_
#define KILN_TESTS_BENCH_ANCHORS_STREAMS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One compiler's loops over `count` floats. */
struct kiln_streams {
  const char* compiler;
  void (*read)(const float* x, int64_t count);
  void (*copy)(const float* x, float* y, int64_t count);
  void (*multiply)(const float* a, const float* b, float* y, int64_t count);
};

extern const struct kiln_streams kiln_streams_clang, kiln_streams_gcc;

#ifdef __cplusplus
}
#endif

#endif /* KILN_TESTS_BENCH_ANCHORS_STREAMS_H_ */
