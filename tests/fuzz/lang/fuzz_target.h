// One fuzz input: parse the bytes as a kernel file, list its kernels, elaborate each closed and
// open, ask for its configs. Whatever the bytes are, the answer is a program that verifies or a
// diagnostic, within the limits.
#ifndef KILN_TESTS_FUZZ_LANG_FUZZ_TARGET_H_
#define KILN_TESTS_FUZZ_LANG_FUZZ_TARGET_H_

#include <string>

namespace kiln::lang {

// What happened, for statistics; aborts the process on a broken promise.
struct FuzzOutcome {
  bool parsed = false;
  int programs = 0;
  int refusals = 0;
};
FuzzOutcome FuzzOne(const std::string& text);

}  // namespace kiln::lang

#endif  // KILN_TESTS_FUZZ_LANG_FUZZ_TARGET_H_
