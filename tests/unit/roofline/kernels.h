// Kernels and requests that the recommender's tests share.
#ifndef KILN_TESTS_UNIT_ROOFLINE_KERNELS_H_
#define KILN_TESTS_UNIT_ROOFLINE_KERNELS_H_

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "compiler/lang/kernel.h"
#include "compiler/roofline/recommend.h"

namespace kiln::roofline {

inline lang::Kernel KernelFrom(const std::string& text, const std::string& path = "test.py") {
  auto kernel = lang::Kernel::Parse(std::make_shared<SourceFile>(SourceFile{path, text}), "");
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return *std::move(kernel);
}

inline lang::Kernel TemplateKernel(const std::string& name) {
  std::ifstream in("compiler/templates/" + name + ".py");
  std::stringstream text;
  text << in.rdbuf();
  return KernelFrom(text.str(), name + ".py");
}

// A shipped kernel whose products may round float32 to tf32.
// With `options` beside the one that lets it round.
inline lang::Kernel RoundedKernel(const std::string& name, const std::string& options = "") {
  std::ifstream in("compiler/templates/" + name + ".py");
  std::stringstream text;
  text << in.rdbuf();
  std::string source = text.str();
  const std::string decorator = "@tilelang.jit(";
  source.insert(source.find(decorator) + decorator.size(),
                "pass_configs={\"kiln.tf32\": 1" + options + "}, ");
  return KernelFrom(source, name + ".py");
}

inline Request MatmulRequest(const lang::Kernel& kernel, int m, int n, int k,
                             const char* arch = "x86-64-v4") {
  Request r;
  r.kernel = &kernel;
  r.arguments = {{"M", std::to_string(m)}, {"N", std::to_string(n)}, {"K", std::to_string(k)}};
  r.arch = *target::NamedArch(arch);
  return r;
}

}  // namespace kiln::roofline

#endif  // KILN_TESTS_UNIT_ROOFLINE_KERNELS_H_
