// The entry point that libFuzzer calls; built with clang only.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/lang/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::lang::FuzzOne(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
