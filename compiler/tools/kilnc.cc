// kilnc: the compiler on the command line. Parses and elaborates a kernel, prints any stage of its
// way to machine code, and runs it in the interpreter or natively on random or given tensors.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/codegen/json_text.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/sum_types.h"
#include "compiler/lang/interface.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/explain_layouts.h"
#include "compiler/passes/pipeline.h"
#include "compiler/templates/templates.h"
#include "compiler/tools/explain_command.h"
#include "compiler/tools/kernel_options.h"
#include "compiler/tools/layout_command.h"
#include "compiler/tools/native_call.h"
#include "compiler/tools/par_compile_command.h"
#include "compiler/tools/recommend_command.h"
#include "compiler/tools/signature_command.h"

namespace kiln {
namespace {

using tools::AddKernelOptions;
using tools::KernelOptions;
using tools::ReadFile;
using tools::ResolveArch;
using tools::ResolveInput;

constexpr int kExitFailed = 1;  // the kernel or a number is wrong
constexpr int kExitUsage = 2;

absl::Status WriteOutput(const std::string& path, const std::string& bytes) {
  if (path.empty() || path == "-") {
    std::cout << bytes;
    if (!absl::EndsWith(bytes, "\n")) std::cout << "\n";
    return absl::OkStatus();
  }
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write '", path, "'"));
  return absl::OkStatus();
}

absl::StatusOr<ir::Program> ElaborateInput(const codegen::CompileInput& input) {
  auto file =
      std::make_shared<const SourceFile>(SourceFile{input.kernel_path, input.kernel_source});
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, input.entry));
  KILN_ASSIGN_OR_RETURN(const target::Arch arch, target::ParseArch(input.arch_record));
  return lang::Elaborate(kernel, input.arguments, input.config, lang::FactsOf(arch));
}

// ---- emit ----

// The GPU that --arch names; none: the least one that the thread level works for.
absl::StatusOr<std::optional<target::Arch>> GpuNamed(const KernelOptions& o) {
  if (o.arch == "host") return std::nullopt;
  KILN_ASSIGN_OR_RETURN(const target::Arch arch, ResolveArch(o.arch));
  if (arch.kind == target::ArchKind::kGpu) return arch;
  return absl::InvalidArgumentError(
      absl::StrCat("--arch ", o.arch, " is no GPU; threads are those of sm_80 and later"));
}

passes::PassContext ContextOf(const std::optional<target::Arch>& gpu) {
  passes::PassContext context;
  if (gpu) context.gpu = &*gpu;
  return context;
}

absl::Status Emit(const KernelOptions& o, const std::string& stage, const std::string& stop_after,
                  const std::string& output, const std::string& manifest) {
  if (!stop_after.empty() && stage != "lowered" && stage != "threads") {
    return absl::InvalidArgumentError(
        absl::StrCat("--stop-after ", stop_after, " has no meaning for --stage ", stage,
                     ", which all passes lead to: use --stage lowered or threads"));
  }
  KILN_ASSIGN_OR_RETURN(const codegen::CompileInput input, ResolveInput(o));
  if (stage == "threads") {
    KILN_ASSIGN_OR_RETURN(const auto gpu, GpuNamed(o));
    KILN_ASSIGN_OR_RETURN(const ir::Program program, ElaborateInput(input));
    KILN_ASSIGN_OR_RETURN(
        const ir::Program threads,
        passes::RunPipeline(passes::ThreadPipeline(), program, ContextOf(gpu), stop_after));
    return WriteOutput(output, ir::ToString(threads));
  }
  if (stage == "obj" || stage == "so" || stage == "cubin" || stage == "header" ||
      stage == "manifest") {
    KILN_ASSIGN_OR_RETURN(const codegen::CompileOutput out, codegen::CompileKernel(input));
    if (stage == "header") return WriteOutput(output, out.header);
    if (stage == "manifest") return WriteOutput(output, out.manifest_json);
    if (!manifest.empty()) KILN_RETURN_IF_ERROR(WriteOutput(manifest, out.manifest_json));
    if (output.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--stage ", stage, " needs -o FILE"));
    }
    if (stage == "cubin" && out.by_driver) return codegen::AssemblerVersion().status();
    if (stage == "cubin" && out.cubin.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no cubin for ", out.target, ": name a GPU with --arch"));
    }
    return WriteOutput(output, stage == "obj"     ? out.object
                               : stage == "cubin" ? out.cubin
                                                  : out.shared_object);
  }
  KILN_ASSIGN_OR_RETURN(const std::string text, codegen::EmitStage(input, stage, stop_after));
  return WriteOutput(output, text);
}

absl::Status Explain(const KernelOptions& o, const std::string& cost) {
  KILN_ASSIGN_OR_RETURN(const codegen::CompileInput input, ResolveInput(o));
  KILN_ASSIGN_OR_RETURN(const auto gpu, GpuNamed(o));
  KILN_ASSIGN_OR_RETURN(const ir::Program program, ElaborateInput(input));
  const auto small =
      cost == "registers" ? passes::LayoutCost::kRegisters : passes::LayoutCost::kTraffic;
  KILN_ASSIGN_OR_RETURN(const std::string story,
                        passes::ExplainLayouts(program, small, ContextOf(gpu)));
  return WriteOutput({}, story);
}

// ---- check ----

int Check(const KernelOptions& o, bool json) {
  absl::StatusOr<codegen::CompileInput> input = ResolveInput(o);
  absl::Status status = input.status();
  if (status.ok()) status = tools::TakeListedConfig(&*input);
  // What the passes refuse has a place in the kernel too, and they take milliseconds.
  if (status.ok()) status = codegen::LowerKernel(*input).status();
  const std::optional<Diagnostic> diagnostic = DiagnosticOf(status);
  if (!json) {
    if (!status.ok()) {
      std::cerr << (diagnostic ? diagnostic->Render() : std::string(status.message())) << "\n";
    }
    return status.ok() ? 0 : kExitFailed;
  }
  nlohmann::json out = {{"ok", status.ok()}};
  if (const auto& d = diagnostic) {
    out["diagnostics"] = {{{"path", d->path},
                           {"line", d->loc.line},
                           {"column", d->loc.column},
                           {"end_column", d->loc.end_column},
                           {"message", d->message},
                           {"help", d->remedy},
                           {"notes", d->notes}}};
  } else if (!status.ok()) {
    out["diagnostics"] = {{{"message", std::string(status.message())}}};
  }
  std::cout << JsonText(out, 2) << "\n";
  return status.ok() ? 0 : kExitFailed;
}

// ---- run ----

struct RunOptions {
  uint64_t seed = 1;
  int threads = 0;
  bool interpret_only = false;
  int64_t max_steps = INT64_MAX;
  bool on_threads = false;
  bool on_instructions = false;
  std::string stop_after;            // interpret the program after this pass
  std::vector<std::string> inputs;   // NAME=FILE, bytes as they lie in memory
  std::vector<std::string> outputs;  // NAME=FILE
  std::vector<std::string> runtime;  // NAME=VALUE: run-time dimensions and scalars
};

absl::StatusOr<std::map<std::string, std::string>> Pairs(const std::vector<std::string>& list) {
  std::map<std::string, std::string> out;
  for (const std::string& item : list) {
    const std::vector<std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
    KILN_CHECK(parts.size() == 2);
    if (!out.emplace(parts[0], parts[1]).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", parts[0], "' is given twice"));
    }
  }
  return out;
}

// What a tensor is in the kernel, where that is not what it is in memory: ", int4 (96, 160), two
// elements in a byte, the first in its low half,". Empty for any other, and where nothing says it.
std::string PackedText(const codegen::CompileInput& input, const std::string& name) {
  const auto file =
      std::make_shared<const SourceFile>(SourceFile{input.kernel_path, input.kernel_source});
  const auto kernel = lang::Kernel::Parse(file, input.entry);
  if (!kernel.ok()) return "";
  const auto signature = lang::ReadSignature(*kernel, input.arguments);
  if (!signature.ok()) return "";
  for (const lang::ParamSignature& param : signature->params) {
    if (param.info.name != name || !param.dtype || !param.dtype->is_packed()) continue;
    const std::string shape = absl::StrJoin(
        param.shape, ", ",
        [](std::string* out, const lang::Dimension& d) { absl::StrAppend(out, d.text); });
    return absl::StrCat(", ", param.dtype->ToString(), " (", shape,
                        "), two elements in a byte, the first in its low half,");
  }
  return "";
}

// Which of the kernel's tensors has this name.
absl::StatusOr<size_t> TensorIndex(const ir::Program& program, const std::string& name) {
  size_t index = 0;
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kTensor) continue;
    if (p.name == name) return index;
    ++index;
  }
  return absl::NotFoundError(absl::StrCat("the kernel has no tensor called '", name, "'"));
}

absl::Status CheckOutputs(const ir::Program& program, const RunOptions& o) {
  KILN_ASSIGN_OR_RETURN(const auto files, Pairs(o.outputs));
  for (const auto& [name, path] : files) {
    KILN_RETURN_IF_ERROR(TensorIndex(program, name).status());
  }
  return absl::OkStatus();
}

absl::Status WriteOutputs(const ir::Program& program, const RunOptions& o,
                          const std::vector<interp::Tensor>& tensors) {
  KILN_ASSIGN_OR_RETURN(const auto files, Pairs(o.outputs));
  for (const auto& [name, path] : files) {
    KILN_ASSIGN_OR_RETURN(const size_t index, TensorIndex(program, name));
    const interp::Tensor& t = tensors[index];
    KILN_RETURN_IF_ERROR(WriteOutput(path, std::string(t.as<char>(), t.as<char>() + t.bytes())));
  }
  return absl::OkStatus();
}

absl::Status ReadInputs(const codegen::CompileInput& input, const ir::Program& program,
                        const RunOptions& o, std::vector<interp::Tensor>* tensors) {
  KILN_ASSIGN_OR_RETURN(const auto files, Pairs(o.inputs));
  for (const auto& [name, path] : files) {
    KILN_ASSIGN_OR_RETURN(const size_t index, TensorIndex(program, name));
    interp::Tensor& tensor = (*tensors)[index];
    const auto wanted = [&] {
      return absl::StrCat("; tensor '", name, "'", PackedText(input, name), " has ",
                          tensor.bytes());
    };
    const absl::StatusOr<std::string> bytes = ReadFile(path, tensor.bytes());
    if (!bytes.ok() && absl::EndsWith(bytes.status().message(), " bytes")) {
      return absl::InvalidArgumentError(absl::StrCat(bytes.status().message(), wanted()));
    }
    KILN_RETURN_IF_ERROR(bytes.status());
    if (static_cast<int64_t>(bytes->size()) != tensor.bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has ", bytes->size(), " bytes", wanted()));
    }
    std::copy(bytes->begin(), bytes->end(), tensor.as<char>());
  }
  return absl::OkStatus();
}

// `implied` are values that follow from the arguments.
absl::StatusOr<interp::Options> InterpreterOptions(
    const RunOptions& o, const std::map<std::string, std::string>& implied) {
  interp::Options options;
  KILN_ASSIGN_OR_RETURN(auto values, Pairs(o.runtime));
  values.insert(implied.begin(), implied.end());
  for (const auto& [name, text] : values) {
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("value '", text, "' of ", name, " is not a number"));
    }
    int64_t whole = 0;
    const bool digits = text.find_first_not_of("+-0123456789") == std::string::npos;
    const bool fits = absl::SimpleAtoi(text, &whole) && static_cast<__int128>(value) == whole;
    if (digits && !fits) {
      return absl::InvalidArgumentError(absl::StrCat("value ", text, " of ", name,
                                                     " is too large: a whole number here is exact "
                                                     "up to 2^53"));
    }
    options.scalars[name] = value;
    if (std::abs(value) < 0x1p62) options.dims[name] = static_cast<int64_t>(value);
  }
  return options;
}

std::vector<interp::TensorView> Views(const std::vector<interp::Tensor>& tensors) {
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& t : tensors) views.push_back(t.View());
  return views;
}

// Tensors are made before anything runs, so that every run-time size must be known.
absl::Status CheckRuntime(const ir::Program& program, const interp::Options& options,
                          const std::map<std::string, std::string>& implied) {
  std::map<std::string, DType> known;
  for (const ir::Expr& dim : program.dims) known[dim.As<ir::Var>()->name] = dim.dtype();
  for (const ir::Param& p : program.params) {
    if (p.kind == ir::Param::kScalar) known[p.name] = p.scalar.dtype();
  }
  for (const auto& [name, value] : options.scalars) {
    const auto found = known.find(name);
    if (found == known.end() && implied.contains(name)) continue;
    if (found == known.end()) {
      return absl::NotFoundError(
          absl::StrCat("the kernel has no run-time size and no scalar called '", name, "'"));
    }
    if (!found->second.is_float() && std::trunc(value) != value) {  // NaN too
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is of ", found->second.ToString(), ", and ", value, " is no integer"));
    }
  }
  const auto missing = [](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(what,
                                                   "' has no value: give one with -r, as in -r ",
                                                   what.substr(what.find('\'') + 1), "=100"));
  };
  for (const ir::Expr& dim : program.dims) {
    const std::string& name = dim.As<ir::Var>()->name;
    if (!options.dims.contains(name))
      return missing(absl::StrCat("the run-time dimension '", name));
  }
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kScalar || options.scalars.contains(p.name)) continue;
    return missing(absl::StrCat("the scalar '", p.name));
  }
  return absl::OkStatus();
}

// Where sums are kept in a coarse type, whose order differs, by worker/README.md's rule.
interp::Tolerance ToleranceFor(const interp::Tensor& want, const ir::CoarseSums* sums,
                               double share) {
  constexpr int64_t kTerms = 4096;  // where nothing is known
  interp::Tolerance tolerance = interp::DefaultTolerance(want.dtype(), kTerms);
  if (!want.dtype().is_float()) return tolerance;
  if (share > 0) {
    tolerance.absolute = std::max(tolerance.absolute, share * interp::RootMeanSquare(want.View()));
  }
  if (sums == nullptr) return tolerance;
  const auto roundings = static_cast<double>(sums->roundings > 0 ? sums->roundings : kTerms);
  tolerance.absolute =
      std::max(tolerance.absolute,
               interp::RootMeanSquare(want.View()) * EpsilonOf(sums->type) * std::sqrt(roundings));
  return tolerance;
}

// Compares every tensor; prints a line each. False when one differs, by more than a `share` of its
// root mean square where that is given.
bool Report(const ir::Program& program, const std::map<std::string, ir::CoarseSums>& sums,
            const std::vector<interp::Tensor>& got, const std::vector<interp::Tensor>& want,
            double share = 0) {
  bool ok = true;
  size_t index = 0;
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kTensor) continue;
    const auto coarse = sums.find(p.name);
    const interp::Comparison c = interp::Compare(
        got[index].View(), want[index].View(),
        ToleranceFor(want[index], coarse == sums.end() ? nullptr : &coarse->second, share));
    std::cout << p.name << ": "
              << (c.ok() ? absl::StrCat("agrees, max error ", c.max_absolute_error)
                         : c.ToString(got[index].shape()));
    if (c.nan_on_both > 0) {
      std::cout << "; " << c.nan_on_both << " of " << got[index].elements()
                << " are NaN on both sides";
      // A tensor that is only written is full of NaN before the run.
      if (c.nan_on_both == got[index].elements()) std::cout << ", as where nothing writes them";
    }
    std::cout << "\n";
    ok &= c.ok();
    ++index;
  }
  return ok;
}

// Runs the kernel once more, into `tensors`.
absl::Status RunNatively(const codegen::CompileInput& input, const ir::Program& program,
                         const RunOptions& o, const interp::Options& options,
                         const std::vector<interp::Tensor>& tensors) {
  KILN_ASSIGN_OR_RETURN(const codegen::CompileOutput compiled, codegen::CompileKernel(input));
  KILN_ASSIGN_OR_RETURN(const double seconds,
                        tools::CallNative(compiled, program, options, tensors, o.threads));
  std::cout << "native: " << seconds * 1e3 << " ms\n";
  return absl::OkStatus();
}

// A line on standard error once something takes long.
class StillAtWork {
 public:
  explicit StillAtWork(const char* line)
      : thread_([this, line] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (!ended_.wait_for(lock, std::chrono::seconds(30), [this] { return done_; })) {
            std::cerr << "kilnc: " << line << std::endl;
          }
        }) {}
  ~StillAtWork() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

// The same, every thread of a block on registers of its own, as a GPU would.
absl::Status RunOnThreads(const KernelOptions& k, const ir::Program& program,
                          interp::Options options, const std::vector<interp::Tensor>& tensors) {
  KILN_ASSIGN_OR_RETURN(const auto gpu, GpuNamed(k));
  KILN_ASSIGN_OR_RETURN(const ir::Program threads,
                        passes::RunPipeline(passes::ThreadPipeline(), program, ContextOf(gpu)));
  options.clip_global = false;  // the guards are in the program now
  KILN_ASSIGN_OR_RETURN(const interp::Stats stats, interp::Run(threads, Views(tensors), options));
  std::cout << "threads: " << stats.blocks << " blocks, " << stats.steps << " steps\n";
  return absl::OkStatus();
}

std::vector<interp::Tensor> Copies(const std::vector<interp::Tensor>& tensors) {
  std::vector<interp::Tensor> copies;
  for (const interp::Tensor& t : tensors) {
    copies.emplace_back(t.dtype(), t.shape(), t.strides());
    std::copy(t.as<char>(), t.as<char>() + t.bytes(), copies.back().as<char>());
  }
  return copies;
}

// The same, on the instructions that code is generated from: what is wrong on a GPU shows here as a
// race, a deadlock or numbers. Once for each order of what has none; `tensors` are those of the
// last.
absl::StatusOr<bool> RunOnInstructions(const codegen::CompileInput& input,
                                       const ir::Program& program, interp::Options options,
                                       const std::map<std::string, ir::CoarseSums>& sums,
                                       const std::vector<interp::Tensor>& reference,
                                       const std::vector<interp::Tensor>& tensors) {
  KILN_ASSIGN_OR_RETURN(const ir::Program lowered, codegen::LowerKernel(input));
  // Operands of ten bits: each product is off by up to 2^-10 of itself, their sum by as much of its
  // deviation, of which no element is more than a few.
  const double share = ir::PassOption(program, "kiln.tf32", 0) != 0 ? 0x1p-8 : 0;
  options.clip_global = false;  // the guards are in the program now
  options.meet_at_barriers = true;
  const auto agrees = [&](interp::Order order,
                          const std::vector<interp::Tensor>& got) -> absl::StatusOr<bool> {
    options.order = order;
    KILN_ASSIGN_OR_RETURN(const interp::Stats stats, interp::Run(lowered, Views(got), options));
    std::cout << "instructions, " << (order == interp::Order::kForward ? "forward" : "reverse")
              << ": " << stats.blocks << " blocks, " << stats.steps << " steps\n";
    return Report(program, sums, got, reference, share);
  };
  KILN_ASSIGN_OR_RETURN(const bool forward, agrees(interp::Order::kForward, Copies(tensors)));
  KILN_ASSIGN_OR_RETURN(const bool reverse, agrees(interp::Order::kReverse, tensors));
  return forward && reverse;
}

// Tensors lie in this machine's memory: what was compiled for a GPU is not called on them.
absl::Status CheckRunsHere(const KernelOptions& k, const RunOptions& o) {
  if (o.interpret_only || o.on_threads) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const target::Arch arch, ResolveArch(k.arch));
  const bool gpu = arch.kind == target::ArchKind::kGpu;
  if (gpu && o.on_instructions) return absl::OkStatus();
  if (o.on_instructions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--on-instructions are those of a GPU, and --arch ", k.arch, " is none: name one, sm_90a"));
  }
  if (!gpu) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--arch ", k.arch,
      " is a GPU, and `kilnc run` calls native code on this machine's cores "
      "alone: add --on-instructions to interpret what the GPU runs, --on-threads to interpret "
      "every thread of a block before instructions are chosen, or --interpret; on a GPU a kernel "
      "is checked and timed by `tunectl tune`, and `kilnc emit --stage so` makes what programs "
      "load"));
}

absl::StatusOr<bool> Run(const KernelOptions& k, const RunOptions& o) {
  KILN_RETURN_IF_ERROR(CheckRunsHere(k, o));
  std::map<std::string, std::string> implied;
  KILN_ASSIGN_OR_RETURN(const codegen::CompileInput input, ResolveInput(k, &implied));
  KILN_ASSIGN_OR_RETURN(ir::Program program, ElaborateInput(input));
  KILN_ASSIGN_OR_RETURN(interp::Options options, InterpreterOptions(o, implied));
  KILN_RETURN_IF_ERROR(CheckRuntime(program, options, implied));
  KILN_ASSIGN_OR_RETURN(std::vector<interp::Tensor> native,
                        interp::RandomArguments(program, options, o.seed));
  KILN_RETURN_IF_ERROR(ReadInputs(input, program, o, &native));
  KILN_RETURN_IF_ERROR(CheckOutputs(program, o));
  const std::vector<interp::Tensor> reference = Copies(native);
  const auto sums = ir::FindCoarseSums(program);
  options.clip_global = o.stop_after.empty();
  options.max_steps = o.max_steps;
  if (!o.stop_after.empty()) {
    KILN_ASSIGN_OR_RETURN(program, codegen::LowerKernel(input, o.stop_after));
  }
  const absl::StatusOr<interp::Stats> run = [&] {
    const StillAtWork note(
        "the interpreter is still at work after 30 s; a loop that never ends is found by "
        "--max-steps 1000000000");
    return interp::Run(program, Views(reference), options);
  }();
  KILN_ASSIGN_OR_RETURN(const interp::Stats stats, run);
  std::cout << "interpreter: " << stats.blocks << " blocks, " << stats.steps << " steps\n";
  bool ok = true;
  if (o.on_instructions) {
    KILN_ASSIGN_OR_RETURN(ok, RunOnInstructions(input, program, options, sums, reference, native));
  } else if (!o.interpret_only) {
    KILN_RETURN_IF_ERROR(o.on_threads ? RunOnThreads(k, program, options, native)
                                      : RunNatively(input, program, o, options, native));
    ok = Report(program, sums, native, reference);
  }
  KILN_RETURN_IF_ERROR(WriteOutputs(program, o, o.interpret_only ? reference : native));
  return ok;
}

int Finish(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cerr << status.message() << "\n";
  return kExitFailed;
}

int List(const std::string& path) {
  if (path.empty()) {
    for (const KernelTemplate& t : KernelTemplates()) {
      std::cout << "template:" << t.name << "  " << t.about << "\n";
    }
    return 0;
  }
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return Finish(text.status());
  const auto names =
      lang::Kernel::List(std::make_shared<const SourceFile>(SourceFile{path, *text}));
  if (!names.ok()) return Finish(names.status());
  for (const std::string& name : *names) std::cout << name << "\n";
  return 0;
}

void AddRunCommand(CLI::App* app, KernelOptions* kernel, RunOptions* options) {
  CLI::App* run = app->add_subcommand("run", "Run in the interpreter and natively, and compare");
  AddKernelOptions(run, kernel);
  run->add_option("--seed", options->seed, "Seed of random tensors")->capture_default_str();
  run->add_option("--threads", options->threads, "Threads of the native run; 0 = all cores")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  CLI::Option* on_threads =
      run->add_flag("--on-threads", options->on_threads,
                    "Instead of natively, run every thread of a block on its own registers, before "
                    "instructions are chosen");
  CLI::Option* on_instructions = run->add_flag(
      "--on-instructions", options->on_instructions,
      "Instead of natively, run what the GPU of --arch would: every thread of every block, "
      "its instructions, barriers and asynchronous copies");
  on_instructions->excludes(on_threads);
  run->add_option("--max-steps", options->max_steps,
                  "End an interpretation that takes more steps, and say where it was; default "
                  "no limit")
      ->check(CLI::PositiveNumber);
  run->add_flag("--interpret", options->interpret_only, "Do not compile")
      ->excludes(on_threads)
      ->excludes(on_instructions);
  run->add_option("--stop-after", options->stop_after,
                  "Interpret the program as it is after this pass");
  run->add_option("-i,--input", options->inputs,
                  "NAME=FILE: raw memory of a tensor, row-major unless it has strides")
      ->check(tools::CheckAssignment);
  run->add_option("-o,--output", options->outputs, "NAME=FILE: where to write a tensor")
      ->check(tools::CheckAssignment);
  run->add_option("-r,--runtime", options->runtime, "NAME=VALUE: a run-time dimension or scalar")
      ->check(tools::CheckAssignment);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Compiles tile kernels to x86-64 and NVIDIA GPUs.\n\n"
      "Examples:\n"
      "  kilnc emit template:matmul -a M=512 -a N=512 -a K=512 --stage lowered\n"
      "  kilnc emit k.py -a M=64 -c block_M=32 --stage so -o k.so\n"
      "  kilnc run template:softmax -a M=64 -a N=100\n"
      "  kilnc check k.py -a M=64 --json\n"
      "  kilnc signature k.py -e gemm\n"
      "  kilnc explain template:matmul -a M=512 -a N=512 -a K=512 --arch sm_90a\n"
      "  kilnc emit k.py -e gemm -a 'A=T.Tensor((1024, 512), T.float16)'   (the program: get_tir)\n"
      "  kilnc par-compile k.py -e gemm --configs configs.json -j 8 -o kernels\n"
      "  kilnc explain-layouts k.py --layout-cost registers\n"
      "  kilnc recommend template:matmul -a M=4096 -a N=4096 -a K=4096 --arch sm_90a\n"
      "  kilnc layout 'S[(8,64):(64,1)]' --swizzle 128B --dtype float16\n\n"
      "KILN_PRINT_PASSES=1 (or a pass name) prints the program after each pass that changed it;\n"
      "KILN_VERIFY_PASSES=1 verifies after each; KILN_TIME_PASSES=1 times them.\n\n"
      "Exit codes: 0 done, 1 the kernel, its numbers or a file is wrong, 2 flags.");
  app.require_subcommand(1);
  app.set_version_flag("--version", codegen::CompilerBuild());

  KernelOptions kernel;
  std::string stage = "tile", stop_after, output, manifest;
  CLI::App* emit = app.add_subcommand(
      "emit", "Print or write one stage of a kernel; --stage tile is the program as elaborated");
  AddKernelOptions(emit, &kernel);
  emit->add_option("-s,--stage", stage,
                   "tile|lowered|threads|llvm|asm|obj|so|cubin|header|manifest; asm is PTX on GPUs")
      ->check(CLI::IsMember({"tile", "lowered", "threads", "llvm", "asm", "obj", "so", "cubin",
                             "header", "manifest"}))
      ->capture_default_str();
  emit->add_option("--stop-after", stop_after,
                   "With --stage lowered or threads: the last pass to run, by its name as "
                   "KILN_TIME_PASSES=1 prints it; default all");
  emit->add_option("-o,--output", output, "File to write; default standard output");
  emit->add_option("--manifest", manifest,
                   "With --stage obj, so or cubin: where to write the manifest");

  bool json = false;
  CLI::App* check = app.add_subcommand("check", "Parse, elaborate and lower; print diagnostics");
  AddKernelOptions(check, &kernel);
  check->add_flag("--json", json, "Diagnostics as JSON");

  RunOptions run_options;
  AddRunCommand(&app, &kernel, &run_options);

  std::string list_path;
  CLI::App* list = app.add_subcommand("list", "Kernels of a file, or the shipped templates");
  list->add_option("file", list_path, "Kernel file; none = templates");

  std::string cost = "traffic";
  CLI::App* explain = app.add_subcommand(
      "explain-layouts", "How layout inference places fragments and loops on the threads of a GPU");
  AddKernelOptions(explain, &kernel);
  explain->add_option("--layout-cost", cost, "What to make small: memory traffic, registers")
      ->check(CLI::IsMember({"traffic", "registers"}))
      ->capture_default_str();

  tools::RecommendOptions recommend_options;
  CLI::App* recommend = tools::AddRecommendCommand(&app, &recommend_options);

  tools::ExplainOptions explain_options;
  CLI::App* explain_kernel = tools::AddExplainCommand(&app, &explain_options);

  tools::ParCompileOptions par_compile_options;
  CLI::App* par_compile = tools::AddParCompileCommand(&app, &par_compile_options);

  tools::SignatureOptions signature_options;
  CLI::App* signature = tools::AddSignatureCommand(&app, &signature_options);

  tools::LayoutOptions layout_options;
  CLI::App* layout = tools::AddLayoutCommand(&app, &layout_options);

  // As a flag too: it is asked of a kernel as other compilers are asked for their reports.
  char word[] = "explain-layouts";
  if (argc > 1 && absl::string_view(argv[1]) == "--explain-layouts") argv[1] = word;

  const std::string command = argc > 1 ? argv[1] : "";
  const auto is_it = [&](CLI::App* known) { return known->check_name(command); };
  if (argc > 1 && !absl::StartsWith(command, "-") && app.get_subcommands(is_it).empty()) {
    std::cerr << "kilnc: '" << command << "' is no command; kilnc --help lists them\n";
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kExitUsage;
  }
  if (*emit) return Finish(Emit(kernel, stage, stop_after, output, manifest));
  if (*check) return Check(kernel, json);
  if (*list) return List(list_path);
  if (*explain) return Finish(Explain(kernel, cost));
  if (*recommend) return Finish(tools::RunRecommendCommand(recommend_options, std::cout));
  if (*explain_kernel) return Finish(tools::RunExplainCommand(explain_options, std::cout));
  if (*par_compile) return Finish(tools::RunParCompileCommand(par_compile_options, std::cout));
  if (*signature) return Finish(tools::RunSignatureCommand(signature_options, std::cout));
  if (*layout) return tools::RunLayoutCommand(layout_options, std::cout, std::cerr);
  const absl::StatusOr<bool> agreed = Run(kernel, run_options);
  if (!agreed.ok()) return Finish(agreed.status());
  return *agreed ? 0 : kExitFailed;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  const int code = kiln::Main(argc, argv);
  std::cout.flush();
  if (std::cout.good()) return code;
  std::cerr << "kilnc: cannot write the output\n";
  return code != 0 ? code : 1;
}
