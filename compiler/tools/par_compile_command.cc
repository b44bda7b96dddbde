#include "compiler/tools/par_compile_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "compiler/codegen/c_names.h"
#include "compiler/codegen/json_text.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/interface.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using lang::Arguments;

// One config on its way.
struct Slot {
  Arguments given;              // as listed, without what is common
  codegen::CompileInput input;  // closed
  std::vector<std::string> notes;
  std::string key;      // equal keys: the same artifact
  size_t same_as = 0;   // the first slot of this key
  std::string name;     // of the artifact's files: its symbol and part of the key
  bool cached = false;  // the folder had it
  bool compiled = false;
  absl::Status status;
};

absl::Status BadConfigs(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", why,
                   "\n  help: write [{\"A\": {\"shape\": [1024, 512], \"dtype\": \"float16\"}, "
                   "\"block_M\": 64}, ...]"));
}

absl::StatusOr<std::string> TensorText(const Json& value, const std::string& path) {
  const auto numbers = [&](const Json& list) -> absl::StatusOr<std::string> {
    std::vector<int64_t> out;
    for (const Json& item : list) {
      if (!item.is_number_integer()) return BadConfigs(path, "a shape or stride is no integer");
      out.push_back(item.get<int64_t>());
    }
    return absl::StrCat("(", absl::StrJoin(out, ", "), ",)");
  };
  for (const auto& [key, part] : value.items()) {
    if (key == "dtype" ? part.is_string() : (key == "shape" || key == "strides") && part.is_array())
      continue;
    return BadConfigs(path, absl::StrCat("a tensor has no '", key, "' like this"));
  }
  if (!value.contains("shape")) return BadConfigs(path, "a tensor has no shape");
  KILN_ASSIGN_OR_RETURN(std::string text, numbers(value["shape"]));
  const bool strided = value.contains("strides");
  if (strided) {
    KILN_ASSIGN_OR_RETURN(const std::string strides, numbers(value["strides"]));
    absl::StrAppend(&text, ", ", strides);
  }
  if (value.contains("dtype")) absl::StrAppend(&text, ", ", value["dtype"].get<std::string>());
  return absl::StrCat(strided ? "T.StridedTensor(" : "T.Tensor(", text, ")");
}

// The value as literal text of the language.
absl::StatusOr<std::string> ValueText(const Json& value, const std::string& path) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return JsonText(value);
  if (value.is_object()) return TensorText(value, path);
  std::string text = "(";
  for (const Json& item : value) {
    KILN_ASSIGN_OR_RETURN(const std::string one, ValueText(item, path));
    absl::StrAppend(&text, one, ", ");
  }
  return absl::StrCat(text, ")");
}

absl::StatusOr<std::vector<Arguments>> ReadConfigs(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::out_of_range&) {
    return BadConfigs(path, "a number that no float64 holds");
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const absl::string_view what = error.what();
    const size_t place = what.find("at line");
    return BadConfigs(path, absl::StrCat("no JSON ", what.substr(std::min(place, what.size()))));
  }
  if (!json.is_array()) return BadConfigs(path, "no JSON list");
  std::vector<Arguments> sets;
  for (const Json& object : json) {
    if (!object.is_object()) return BadConfigs(path, "a config is no object");
    Arguments set;
    for (const auto& [name, value] : object.items()) {
      KILN_ASSIGN_OR_RETURN(set[name], ValueText(value, path));
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

absl::StatusOr<std::vector<Arguments>> ListConfigs(const ParCompileOptions& o,
                                                   const lang::Kernel& kernel,
                                                   const codegen::CompileInput& common,
                                                   const lang::TargetFacts& target) {
  if (o.autotune != o.configs.empty()) {
    return absl::InvalidArgumentError("give either --configs or --autotune");
  }
  if (o.autotune) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Config> configs,
                          lang::AutotuneConfigs(kernel, common.arguments, target));
    std::vector<Arguments> sets;
    for (const Config& config : configs) sets.push_back(config.values());
    if (!sets.empty()) return sets;
    return absl::NotFoundError(absl::StrCat("'", kernel.name(), "' has no @tilelang.autotune"));
  }
  std::error_code ignored;
  const bool file = absl::EndsWith(o.configs, ".json") || fs::exists(o.configs, ignored);
  return file ? ReadConfigs(o.configs) : lang::ListedArguments(kernel, o.configs, target);
}

// Merges what is listed with what is common, and names the artifact.
absl::Status Close(const lang::Kernel& kernel, const codegen::CompileInput& common,
                   const lang::TargetFacts& target, Slot* slot) {
  slot->input = common;
  for (const auto& [name, text] : slot->given) {
    const bool tunable =
        std::any_of(kernel.params().begin(), kernel.params().end(), [&](const lang::ParamInfo& p) {
          return p.name == name && p.kind == lang::ParamInfo::kCompileTime && p.has_default;
        });
    const absl::StatusOr<Config> one = Config::Parse(absl::StrCat(name, "=", text));
    if ((tunable || IsOptionName(name)) && one.ok()) {
      slot->input.config = slot->input.config.MergedWith(*one);
    } else {
      slot->input.arguments[name] = text;
    }
  }
  codegen::CompileInput& input = slot->input;
  KILN_ASSIGN_OR_RETURN(lang::ClosedArguments closed,
                        lang::CloseArguments(kernel, input.arguments, input.config, target));
  input.arguments = std::move(closed.arguments);
  slot->notes = std::move(closed.notes);
  KILN_ASSIGN_OR_RETURN(const ir::Program program,
                        lang::Elaborate(kernel, input.arguments, input.config, target));
  const std::string symbol =
      input.symbol.empty() ? codegen::DefaultSymbol(program.name) : input.symbol;
  Hasher hasher;
  for (const std::string& field :
       {codegen::CompilerBuild(), input.arch_record, symbol, ir::ProgramDigest(program),
        input.config.ToString(), absl::StrJoin(input.arguments, "\n", absl::PairFormatter("="))}) {
    hasher.UpdateField(field);
  }
  slot->key = hasher.FinishHex();
  slot->name = absl::StrCat(symbol, "-", slot->key.substr(0, 12));
  return absl::OkStatus();
}

absl::Status WriteFile(const fs::path& path, const std::string& bytes) {
  const fs::path part = path.string() + ".part";
  std::ofstream out(part, std::ios::binary);
  out << bytes;
  out.close();
  std::error_code error;
  if (out) fs::rename(part, path, error);
  if (out && !error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write '", path.string(), "'"));
}

// The shared object comes last: where it is, the others are.
absl::Status Compile(const std::string& folder, Slot* slot) {
  const std::string path = absl::StrCat(folder, "/", slot->name);
  std::error_code ignored;
  slot->cached = !folder.empty() && fs::exists(path + ".so", ignored);
  if (slot->cached) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const codegen::CompileOutput out, codegen::CompileKernel(slot->input));
  slot->compiled = true;
  if (folder.empty()) return absl::OkStatus();
  const std::pair<const char*, const std::string*> files[] = {{".h", &out.header},
                                                              {".json", &out.manifest_json},
                                                              {".ptx", &out.assembly},
                                                              {".cubin", &out.cubin},
                                                              {".so", &out.shared_object}};
  for (const auto& [ending, bytes] : files) {
    if (!bytes->empty()) KILN_RETURN_IF_ERROR(WriteFile(path + ending, *bytes));
  }
  return absl::OkStatus();
}

// Calls `work(i)` for i in [0, count) on `threads` threads, in order of i; those after a false are
// not begun.
void ForEach(size_t count, int threads, const std::function<bool(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> stop = false;
  const auto loop = [&] {
    for (size_t i = next++; i < count && !stop; i = next++) {
      if (!work(i)) stop = true;
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(loop);
  loop();
  for (std::thread& thread : pool) thread.join();
}

std::string Given(const Slot& slot) {
  return absl::StrJoin(slot.given, ",", absl::PairFormatter("="));
}

void Print(const std::vector<Slot>& slots, size_t i, const std::string& folder, std::ostream& out) {
  const Slot& slot = slots[i];
  if (!slot.status.ok()) {
    const std::string why(slot.status.message());
    out << i << " failed   " << Given(slot) << " " << why.substr(0, why.find('\n')) << "\n";
    return;
  }
  const std::string how = slot.same_as != i ? absl::StrCat("same as ", slot.same_as)
                          : slot.cached     ? "cached  "
                                            : "compiled";
  out << i << " " << how << " " << Given(slot);
  if (!folder.empty()) out << " " << folder << "/" << slot.name << ".so";
  out << "\n";
}

// What is wrong, and with which of them.
absl::Status Failed(const std::vector<Slot>& slots, size_t i) {
  const absl::Status& status = slots[i].status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "\n  note: number ", i,
                                   " of the configs, the first being 0: ", Given(slots[i])));
}

absl::Status WriteIndex(const std::vector<Slot>& slots, const std::string& folder) {
  Json index = Json::array();
  for (const Slot& slot : slots) {
    Json one = {{"given", slot.given}};
    if (slot.status.ok()) {
      one["artifact"] = slot.name;
      one["config"] = slot.input.config.values();
      one["arguments"] = slot.input.arguments;
    } else {
      one["error"] = std::string(slot.status.message());
    }
    index.push_back(std::move(one));
  }
  return WriteFile(fs::path(folder) / "index.json", JsonText(index, 2) + "\n");
}

}  // namespace

CLI::App* AddParCompileCommand(CLI::App* app, ParCompileOptions* o) {
  CLI::App* command = app->add_subcommand(
      "par-compile", "Compile many configs of a kernel on all cores, a line each, in order");
  AddKernelOptions(command, &o->kernel);
  command->add_option("--configs", o->configs,
                      "A JSON list of objects, or a list or function of the kernel's file; tensors "
                      "are {\"shape\": [1024, 512], \"dtype\": \"float16\"} or "
                      "T.Tensor((1024, 512), T.float16)");
  command->add_flag("--autotune", o->autotune, "The configs of the kernel's @tilelang.autotune");
  command->add_flag("--ignore-error", o->ignore_error, "Go on after a config that fails");
  command->add_option("-j,--jobs", o->jobs, "At once; 0 = all cores")->check(CLI::Range(0, 1024));
  command->add_option("-o,--output", o->folder,
                      "Folder for the artifacts; what it has already is not compiled again");
  return command;
}

absl::Status RunParCompileCommand(const ParCompileOptions& o, std::ostream& out) {
  KILN_ASSIGN_OR_RETURN(codegen::CompileInput common, ReadInput(o.kernel));
  KILN_ASSIGN_OR_RETURN(const target::Arch arch, ResolveArch(o.kernel.arch));
  common.arch_record = target::ToText(arch);
  const lang::TargetFacts facts = lang::FactsOf(arch);
  auto file =
      std::make_shared<const SourceFile>(SourceFile{common.kernel_path, common.kernel_source});
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, common.entry));
  KILN_ASSIGN_OR_RETURN(const std::vector<Arguments> sets, ListConfigs(o, kernel, common, facts));
  if (!o.folder.empty()) {
    std::error_code error;
    fs::create_directories(o.folder, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot make the folder ", o.folder));
  }
  std::vector<Slot> slots(sets.size());
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = o.jobs > 0 ? o.jobs : cores;
  ForEach(slots.size(), threads, [&](size_t i) {
    slots[i].given = sets[i];
    slots[i].status = Close(kernel, common, facts, &slots[i]);
    return slots[i].status.ok() || o.ignore_error;
  });
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].status.ok() && !o.ignore_error) return Failed(slots, i);
    slots[i].same_as = slots[i].status.ok() ? first.emplace(slots[i].key, i).first->second : i;
  }
  ForEach(slots.size(), threads, [&](size_t i) {
    if (!slots[i].status.ok() || slots[i].same_as != i) return true;
    slots[i].status = Compile(o.folder, &slots[i]);
    return slots[i].status.ok() || o.ignore_error;
  });
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].status.ok()) slots[i].status = slots[slots[i].same_as].status;
    if (!slots[i].status.ok() && !o.ignore_error) return Failed(slots, i);
    for (const std::string& note : slots[i].notes) out << i << " note: " << note << "\n";
    Print(slots, i, o.folder, out);
  }
  return o.folder.empty() ? absl::OkStatus() : WriteIndex(slots, o.folder);
}

}  // namespace kiln::tools
