// The ready-made layouts of fragments.h and memory_layouts.h by name, for command lines and pages:
//
//   mma:m16n8k16,A,16      wgmma_accumulator:64      mma_shared:16,128B,64,64
//
// A name is a family, then after a colon its parameters in order; those left out have the values
// that the family states.
#ifndef KILN_COMPILER_LAYOUT_PRESETS_H_
#define KILN_COMPILER_LAYOUT_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/swizzle.h"

namespace kiln::layout {

struct Preset {
  std::string name;            // as asked for
  std::vector<int64_t> shape;  // the logical tile
  int element_bits = 32;
  Layout layout;
};

struct PresetFamily {
  const char* name;
  const char* parameters;  // "bits=16,mode=128B,rows=64,columns=64"; empty for none
  const char* about;
  const char* examples;  // parameter lists, separated by blanks; "-" is the empty one
};

absl::Span<const PresetFamily> PresetFamilies();

// Names of the examples of every family; each is found by FindPreset.
std::vector<std::string> PresetNames();

// InvalidArgument for parameters that the family does not take, NotFound with the families for an
// unknown one.
absl::StatusOr<Preset> FindPreset(absl::string_view name);

// True for what could only be the name of a preset: it starts with a small letter.
bool LooksLikePreset(absl::string_view text);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_PRESETS_H_
