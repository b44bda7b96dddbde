// A kernel's text run by everything that runs kernels: its tiles, its threads and a GPU's
// instructions in the interpreter, and code of this machine; and assembled for GPUs.
#ifndef KILN_TESTS_UTIL_EVERYWHERE_H_
#define KILN_TESTS_UTIL_EVERYWHERE_H_

#include <functional>
#include <string>
#include <vector>

#include "compiler/interp/interp.h"

namespace kiln::testing {

using Views = std::vector<interp::TensorView>;

// "import ...", and `body` in a launch of `blocks` by `threads` of a kernel of these parameters.
std::string KernelText(const std::string& parameters, const std::string& body, int threads = 128,
                       const std::string& blocks = "1");

struct Everywhere {
  bool native = true;  // code of this machine
  bool gpu = true;     // instructions of sm_80 and sm_90a, and PTX for both
};

// Calls `check` with the tensors that each of them left, from what `fill` put there.
void RunEverywhere(const std::string& text, const std::function<void(const Views&)>& fill,
                   const std::function<void(const Views&, const std::string& where)>& check,
                   Everywhere where = {});

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_EVERYWHERE_H_
