#include "compiler/roofline/expand.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/lang/pass_options.h"

namespace kiln::roofline {
namespace {

std::optional<double> Integer(const std::string& text) {
  int64_t v = 0;
  if (!absl::SimpleAtoi(text, &v)) return std::nullopt;
  return static_cast<double>(v);
}

absl::Status InConfig(const Config& config, const absl::Status& status) {
  if (config.values().empty()) return status;
  return WithContext(status, absl::StrCat("with ", config.ToString()));
}

Config OneOption(const std::string& name, const std::string& value) {
  return Config(std::map<std::string, std::string>{{name, value}});
}

std::string Flipped(const std::string& text) { return text == "True" ? "False" : "True"; }

class Expander {
 public:
  explicit Expander(const Request& request) : r_(request), facts_(lang::FactsOf(request.arch)) {}

  absl::StatusOr<Expanded> Run() {
    KILN_RETURN_IF_ERROR(ChooseTunables());
    if (!configs_.empty()) {
      KILN_RETURN_IF_ERROR(ExpandList());
    } else {
      KILN_RETURN_IF_ERROR(ExpandProduct());
    }
    out_.kernel_digest = digest_.Finish();
    return std::move(out_);
  }

 private:
  absl::Status ChooseTunables();
  absl::Status CheckName(const std::string& name) const;
  absl::Status CheckAutoOption(const std::string& name) const;
  absl::Status AddAuto(const std::string& name, bool asked);
  absl::Status ExpandProduct();
  absl::Status ExpandList();
  absl::Status Probe();
  absl::StatusOr<bool> KeepSizes(const lang::OpenProgram& program, std::vector<std::string>* open);
  absl::Status FindOptions(const lang::OpenProgram& open);
  void AddOptions();
  void ShareRows();
  absl::Status BindConcrete(const std::string& name, const Config& base,
                            const std::vector<std::string>& open);
  absl::Status DeriveAll();
  absl::Status Split(const Config& fixed, std::vector<int> axes);
  absl::StatusOr<lang::OpenResult> Elaborate(const Config& fixed,
                                             const std::vector<std::string>& open);
  absl::Status CheckRuntime(const ir::Program& program) const;
  Axis* Find(const std::string& name);
  int64_t Product() const;
  void NoteDemand(const Demand& demand);
  void Note(std::string sentence);

  const Request& r_;
  const lang::TargetFacts facts_;
  Expanded out_;
  std::vector<Config> configs_;
  std::map<std::string, std::string> defaults_;  // auto tunables
  std::map<std::string, Binding> bindings_;
  std::vector<const OpenOption*> options_;  // open
  KernelDigest digest_;
  absl::Status first_error_;
  int64_t skipped_pieces_ = 0;
};

void Expander::Note(std::string sentence) {
  auto& all = out_.notes;
  if (std::find(all.begin(), all.end(), sentence) == all.end()) all.push_back(std::move(sentence));
}

void Expander::NoteDemand(const Demand& demand) {
  for (const std::string& a : demand.approximations) Note(a);
}

Axis* Expander::Find(const std::string& name) {
  for (Axis& a : out_.axes) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

absl::Status Expander::CheckName(const std::string& name) const {
  if (IsOptionName(name)) return absl::OkStatus();  // its values are checked where they are given
  std::vector<std::string> names;
  for (const lang::ParamInfo& p : r_.kernel->params()) {
    if (p.kind != lang::ParamInfo::kCompileTime) continue;
    if (p.name == name) {
      if (r_.arguments.count(name) == 0) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' is both an argument and a tunable: leave one of them out"));
    }
    names.push_back(p.name);
  }
  for (const std::string& c : r_.kernel->consts()) {
    if (c == name) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", r_.kernel->name(), "' has no parameter '",
                                                 name, "' to tune; its parameters are ",
                                                 absl::StrJoin(names, ", ")));
}

// A pass option without values: one of those that the recommender knows what they are good for.
absl::Status Expander::CheckAutoOption(const std::string& name) const {
  std::vector<std::string> names;
  for (const OpenOption& option : OpenOptions()) names.push_back(option.name);
  if (std::count(names.begin(), names.end(), name) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the values of the pass option '", name, "' cannot be derived: list them (",
                   "derived are those of ", absl::StrJoin(names, " and "), ")"));
}

// A tunable without values. `asked`: the user named it; else a parameter that merely was not fixed.
absl::Status Expander::AddAuto(const std::string& name, bool asked) {
  const lang::ParamInfo* info = nullptr;
  for (const lang::ParamInfo& p : r_.kernel->params()) {
    if (p.name == name) info = &p;
  }
  if (info == nullptr || !info->default_text) {
    return absl::InvalidArgumentError(
        absl::StrCat("the values of '", name,
                     "' cannot be derived: it has no default to start from; list its "
                     "values or give it a default in the kernel"));
  }
  const std::string& text = *info->default_text;
  const bool boolean = text == "True" || text == "False";
  if (!Integer(text) && !(asked && boolean)) {
    if (asked)
      Note(absl::StrCat("'", name, "' keeps its default ", text, ": only integers are derived"));
    return absl::OkStatus();
  }
  Axis axis;
  axis.name = name;
  axis.derived = true;
  axis.texts = {text};
  if (boolean) axis.role = Role::kFlag;
  if (const auto v = Integer(text)) axis.numbers = {*v};
  defaults_[name] = text;
  out_.axes.push_back(std::move(axis));
  return absl::OkStatus();
}

absl::Status Expander::ChooseTunables() {
  configs_ = r_.configs;
  const bool nothing = configs_.empty() && r_.tunables.empty() && r_.auto_tunables.empty();
  if (nothing) {
    KILN_ASSIGN_OR_RETURN(configs_, lang::AutotuneConfigs(*r_.kernel, r_.arguments, facts_));
  }
  if (!configs_.empty()) {
    if (!r_.tunables.empty() || !r_.auto_tunables.empty()) {
      return absl::InvalidArgumentError(
          "a sweep either lists configs or describes tunables, not both");
    }
    return absl::OkStatus();
  }
  for (const auto& [name, values] : r_.tunables) {
    KILN_RETURN_IF_ERROR(CheckName(name));
    if (values.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the list of values of '", name, "' is empty"));
    }
    Axis axis;
    axis.name = name;
    for (const std::string& v : values) {
      if (std::find(axis.texts.begin(), axis.texts.end(), v) == axis.texts.end()) {
        axis.texts.push_back(v);
      }
    }
    for (const std::string& v : axis.texts) {
      KILN_RETURN_IF_ERROR(lang::CheckPassOptions(OneOption(name, v)));
      if (const auto n = Integer(v)) axis.numbers.push_back(*n);
    }
    if (axis.numbers.size() != axis.texts.size()) axis.numbers.clear();
    if (IsOptionName(name)) axis.role = Role::kOption;
    out_.axes.push_back(std::move(axis));
  }
  for (const std::string& name : r_.auto_tunables) {
    KILN_RETURN_IF_ERROR(CheckName(name));
    if (r_.tunables.count(name) > 0) continue;
    if (IsOptionName(name)) {
      KILN_RETURN_IF_ERROR(CheckAutoOption(name));
      continue;
    }
    KILN_RETURN_IF_ERROR(AddAuto(name, true));
  }
  if (nothing) {
    for (const lang::ParamInfo& p : r_.kernel->params()) {
      if (p.kind != lang::ParamInfo::kCompileTime || !p.has_default) continue;
      if (r_.arguments.count(p.name) == 0) KILN_RETURN_IF_ERROR(AddAuto(p.name, false));
    }
  }
  std::sort(out_.axes.begin(), out_.axes.end(),
            [](const Axis& a, const Axis& b) { return a.name < b.name; });
  return absl::OkStatus();
}

absl::StatusOr<lang::OpenResult> Expander::Elaborate(const Config& fixed,
                                                     const std::vector<std::string>& open) {
  KILN_ASSIGN_OR_RETURN(lang::OpenResult result,
                        lang::ElaborateOpen(*r_.kernel, r_.arguments, fixed, open, facts_));
  if (result.program) {
    KILN_RETURN_IF_ERROR(CheckRuntime(result.program->program));
    const int64_t instructions = ir::PassOption(result.program->program, "kiln.instructions", 0);
    KILN_RETURN_IF_ERROR(target::WithInstructions(r_.arch, instructions).status());
  }
  return result;
}

// Values for run time have the names of the program's dimensions and scalars, and, where the kernel
// is to run, each of these has one.
absl::Status Expander::CheckRuntime(const ir::Program& program) const {
  std::set<std::string> names;
  for (const ir::Expr& dim : program.dims) names.insert(dim.As<ir::Var>()->name);
  for (const ir::Param& param : program.params) {
    if (param.kind == ir::Param::kScalar) names.insert(param.name);
  }
  for (const auto& [name, value] : r_.runtime) {
    if (names.count(name) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the kernel has no run-time dimension or scalar '", name,
                     "'; it has: ", names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }
  for (const std::string& name : names) {
    if (!r_.runs || r_.runtime.count(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("the run-time value '", name,
                                                   "' of the kernel is missing; give it under ",
                                                   "`runtime` in the sweep file, to measure with"));
  }
  return absl::OkStatus();
}

// A parameter that a tensor's shape depends on makes another problem, not another config: unless
// the sweep lists its values, it keeps its default. True when one was left out of the space.
absl::StatusOr<bool> Expander::KeepSizes(const lang::OpenProgram& program,
                                         std::vector<std::string>* open) {
  bool changed = false;
  for (const auto& [name, var] : program.tunables) {
    const Axis* axis = Find(name);
    if (axis == nullptr || !axis->derived) continue;
    const ir::Param* sized = nullptr;
    for (const ir::Param& param : program.program.params) {
      if (param.kind != ir::Param::kTensor) continue;
      for (const ir::Expr& extent : param.buffer->shape) {
        if (ir::Uses(extent, var)) sized = &param;
      }
    }
    if (sized == nullptr) continue;
    const std::string why = absl::StrCat("'", name, "' decides the shape of tensor '", sized->name,
                                         "', so that its values are problems, not configs");
    if (std::count(r_.auto_tunables.begin(), r_.auto_tunables.end(), name) > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(why, "; give its value in the arguments (in a sweep file, `shapes`)"));
    }
    Note(absl::StrCat(why, "; it keeps its default, ", defaults_[name]));
    std::erase(*open, name);
    std::erase_if(out_.axes, [&](const Axis& a) { return a.name == name; });
    changed = true;
  }
  return changed;
}

// Finds which tunables can stay open, and what each does, with the others at their first value.
absl::Status Expander::Probe() {
  Config base;
  std::vector<std::string> open;
  for (const Axis& a : out_.axes) {
    if (a.numbers.empty() || a.role == Role::kOption) {
      base.Set(a.name, a.texts.front());
    } else {
      open.push_back(a.name);
    }
  }
  while (true) {
    KILN_ASSIGN_OR_RETURN(lang::OpenResult result, Elaborate(base, open));
    if (result.program) {
      KILN_ASSIGN_OR_RETURN(const bool changed, KeepSizes(*result.program, &open));
      if (changed) continue;
      bindings_ = BindRoles(result.program->program, result.program->tunables, r_.runtime);
      KILN_RETURN_IF_ERROR(FindOptions(*result.program));
      break;
    }
    const size_t before = open.size();
    for (const std::string& name : result.needs->tunables) {
      std::erase(open, name);
      if (const Axis* a = Find(name)) base.Set(name, a->texts.front());
    }
    if (open.size() == before) {
      return absl::InternalError(
          absl::StrCat("elaboration asks for a concrete value of what is not open: ",
                       absl::StrJoin(result.needs->tunables, ", ")));
    }
  }
  for (const std::string& name : open) {
    Axis& a = *Find(name);
    a.open = true;
    a.role = bindings_[name].role;
  }
  ShareRows();
  for (Axis& a : out_.axes) {
    if (!a.open) KILN_RETURN_IF_ERROR(BindConcrete(a.name, base, open));
  }
  return absl::OkStatus();
}

// The pass options that the kernel leaves open and that change how its launches work.
absl::Status Expander::FindOptions(const lang::OpenProgram& open) {
  const auto asked = [&](const OpenOption& option) {
    return std::count(r_.auto_tunables.begin(), r_.auto_tunables.end(), option.name) > 0;
  };
  const bool none_asked = std::none_of(OpenOptions().begin(), OpenOptions().end(), asked);
  if (r_.arch.kind != target::ArchKind::kGpu || r_.arch.cluster == 0) return absl::OkStatus();
  if (none_asked && (!r_.tunables.empty() || !r_.auto_tunables.empty())) return absl::OkStatus();
  auto demand = Analyze(open.program, open.tunables, open.constraints, r_.runtime);
  if (!demand.ok()) return demand.status();
  const bool fetches = std::any_of(demand->launches.begin(), demand->launches.end(),
                                   [](const LaunchDemand& l) { return l.warps.possible; });
  for (const OpenOption& option : OpenOptions()) {
    if (!fetches || open.program.attrs.count(option.name) > 0) continue;
    if (none_asked || asked(option)) options_.push_back(&option);
  }
  return absl::OkStatus();
}

// They are axes of the space, unless it would be too large with them.
void Expander::AddOptions() {
  int64_t ways = 1;
  for (const OpenOption* option : options_) ways *= static_cast<int64_t>(option->values.size());
  if (ways > 1 && Product() > r_.limits.configs / ways) {
    Note("sampled: pass options keep their defaults in a space this large");
    return;
  }
  for (const OpenOption* option : options_) {
    Axis axis;
    axis.name = option->name;
    axis.role = Role::kOption;
    axis.derived = axis.open = true;
    for (const int64_t value : option->values) {
      axis.texts.push_back(absl::StrCat(value));
      axis.numbers.push_back(static_cast<double>(value));
    }
    out_.total *= static_cast<int64_t>(axis.texts.size());
    out_.axes.push_back(std::move(axis));
  }
}

// A gemm over a matrix of few rows streams its other operand: its N and K tiles want other values.
void Expander::ShareRows() {
  double rows = 0;
  for (const auto& [name, b] : bindings_) {
    if (b.role == Role::kTileM && !b.cuts.empty()) rows = std::max(rows, b.cuts.front());
  }
  for (auto& [name, b] : bindings_) {
    const bool other = b.role == Role::kTileN || b.role == Role::kTileK;
    if (other && b.stream_rows == 0) b.stream_rows = rows;
  }
}

// A tunable that decides the program's structure: compare the programs that two values give.
absl::Status Expander::BindConcrete(const std::string& name, const Config& base,
                                    const std::vector<std::string>& open) {
  Axis& a = *Find(name);
  if (a.role == Role::kOption) return absl::OkStatus();
  const std::string first = a.texts.front();
  std::string other = a.texts.size() > 1 ? a.texts[1] : "";
  if (other.empty() && a.role == Role::kFlag) other = Flipped(first);
  if (other.empty() && !a.numbers.empty()) {
    other = absl::StrCat(a.numbers[0] == 0 ? 8 : static_cast<int64_t>(a.numbers[0]) * 2);
  }
  if (other.empty()) return absl::OkStatus();
  Config changed = base;
  changed.Set(name, other);
  KILN_ASSIGN_OR_RETURN(lang::OpenResult x, Elaborate(base, open));
  auto y = Elaborate(changed, open);
  const bool comparable = x.program && y.ok() && y->program;
  const Role role =
      comparable ? RoleByDifference(x.program->program, y->program->program) : Role::kOther;
  const bool flag = a.role == Role::kFlag;
  a.role = flag && role != Role::kInert ? Role::kFlag : role;
  bindings_[name].role = a.role;
  if (!a.derived) return absl::OkStatus();
  if (flag && comparable && role != Role::kInert) a.texts = {first, other};
  if (role == Role::kOther && !flag) {
    Note(absl::StrCat("'", name, "' decides the structure of the kernel and keeps its default ",
                      first, "; list its values to have them tried"));
  }
  return absl::OkStatus();
}

int64_t Expander::Product() const {
  double product = 1;
  for (const Axis& a : out_.axes) product *= static_cast<double>(a.texts.size());
  return product > 1e15 ? static_cast<int64_t>(1e15) : static_cast<int64_t>(product);
}

absl::Status Expander::DeriveAll() {
  int limit = r_.limits.values;
  int64_t full = 0;
  while (true) {
    for (Axis& a : out_.axes) {
      if (!a.derived || a.numbers.empty()) continue;
      const int64_t fallback = *Integer(defaults_[a.name]);
      a.texts.clear();
      a.numbers.clear();
      for (int64_t v : DeriveValues(bindings_[a.name], r_.arch, fallback, limit)) {
        a.texts.push_back(absl::StrCat(v));
        a.numbers.push_back(static_cast<double>(v));
      }
    }
    const int64_t product = Product();
    if (full == 0) full = product;
    if (product <= r_.limits.configs) {
      if (product < full) {
        Note(absl::StrCat("sampled: ", product, " of ", full, " configs of the derived space"));
      }
      out_.total = full;
      return absl::OkStatus();
    }
    if (limit <= 2) {
      return absl::ResourceExhaustedError(absl::StrCat("the space has ", full,
                                                       " configs and the limit is ",
                                                       r_.limits.configs, ": list fewer values"));
    }
    limit = std::max(2, limit * 4 / 5);
  }
}

absl::Status Expander::ExpandProduct() {
  KILN_RETURN_IF_ERROR(Probe());
  KILN_RETURN_IF_ERROR(DeriveAll());
  AddOptions();
  std::vector<int> axes;
  Config fixed;
  for (size_t i = 0; i < out_.axes.size(); ++i) axes.push_back(static_cast<int>(i));
  KILN_RETURN_IF_ERROR(Split(fixed, axes));
  if (skipped_pieces_ > 0) {
    Note(absl::StrCat("sampled: ", out_.pieces.size(), " of ", out_.pieces.size() + skipped_pieces_,
                      " pieces elaborated"));
  }
  if (out_.pieces.empty()) return first_error_;
  if (!first_error_.ok()) {
    Note(absl::StrCat("some values do not elaborate and are left out, the first with: ",
                      std::string(first_error_.message()).substr(0, 300)));
  }
  return absl::OkStatus();
}

// Elaborates with `axes` undecided, those that can be open; where a decision needs a value, one
// piece for each value.
absl::Status Expander::Split(const Config& fixed, std::vector<int> axes) {
  int split = -1;
  std::vector<std::string> open, options;
  for (int i : axes) {
    if (!out_.axes[i].open && split < 0) split = i;
    if (!out_.axes[i].open) continue;
    (out_.axes[i].role == Role::kOption ? options : open).push_back(out_.axes[i].name);
  }
  lang::OpenResult result;
  if (split < 0) {
    if (static_cast<int>(out_.pieces.size()) >= r_.limits.pieces) {
      ++skipped_pieces_;
      return absl::OkStatus();
    }
    auto elaborated = Elaborate(fixed, open);
    if (!elaborated.ok()) {
      if (first_error_.ok()) first_error_ = InConfig(fixed, elaborated.status());
      return absl::OkStatus();
    }
    result = *std::move(elaborated);
    if (result.needs) {
      for (int i : axes) {
        const auto& needed = result.needs->tunables;
        if (std::find(needed.begin(), needed.end(), out_.axes[i].name) != needed.end()) split = i;
      }
      if (split < 0) return absl::InternalError("elaboration asks for a value that is not open");
    }
  }
  if (split >= 0) {
    std::vector<int> rest = axes;
    std::erase(rest, split);
    for (const std::string& text : out_.axes[split].texts) {
      Config next = fixed;
      next.Set(out_.axes[split].name, text);
      KILN_RETURN_IF_ERROR(Split(next, rest));
    }
    return absl::OkStatus();
  }
  digest_.Add(fixed, *result.program);
  auto piece = Piece::Make(fixed, *result.program, r_.runtime, r_.arch, options);
  if (!piece.ok()) return piece.status();
  NoteDemand(piece->demand());
  PieceRows rows{*std::move(piece), axes, {}, 1};
  for (int i : axes) rows.rows *= static_cast<int64_t>(out_.axes[i].texts.size());
  out_.pieces.push_back(std::move(rows));
  return absl::OkStatus();
}

// Configs given outright: grouped by what must be concrete, each group one piece.
absl::Status Expander::ExpandList() {
  std::set<std::string> names;
  for (const Config& c : configs_) {
    for (const auto& [name, value] : c.values()) names.insert(name);
  }
  std::vector<Config> unique;
  std::set<std::string> seen;
  for (const Config& c : configs_) {
    if (seen.insert(c.ToString()).second) unique.push_back(c);
  }
  out_.total = static_cast<int64_t>(unique.size());
  for (const Config& c : unique) KILN_RETURN_IF_ERROR(lang::CheckPassOptions(c));
  for (const std::string& name : names) {
    KILN_RETURN_IF_ERROR(CheckName(name));
    Axis axis;
    axis.name = name;
    if (IsOptionName(name)) axis.role = Role::kOption;
    std::set<std::string> values;
    for (const Config& c : unique) {
      if (const std::string* v = c.Find(name)) values.insert(*v);
    }
    axis.texts.assign(values.begin(), values.end());
    for (const std::string& v : axis.texts) {
      if (const auto n = Integer(v)) axis.numbers.push_back(*n);
    }
    if (axis.numbers.size() != axis.texts.size()) axis.numbers.clear();
    out_.axes.push_back(std::move(axis));
  }
  // (names that a config gives as integers, names that must be concrete) -> configs.
  std::set<std::string> concrete;
  std::vector<Config> pending = unique;
  while (!pending.empty()) {
    std::map<std::string, std::vector<Config>> groups;
    std::map<std::string, std::pair<Config, std::vector<std::string>>> keys;
    for (const Config& c : pending) {
      Config fixed;
      std::vector<std::string> open;
      for (const auto& [name, value] : c.values()) {
        if (concrete.count(name) > 0 || IsOptionName(name) || !Integer(value)) {
          fixed.Set(name, value);
        } else {
          open.push_back(name);
        }
      }
      const std::string key = absl::StrCat(fixed.ToString(), "|", absl::StrJoin(open, ","));
      groups[key].push_back(c);
      keys[key] = {fixed, open};
    }
    pending.clear();
    for (auto& [key, group] : groups) {
      const auto& [fixed, open] = keys[key];
      if (static_cast<int>(out_.pieces.size()) >= r_.limits.pieces * 16) {
        ++skipped_pieces_;
        continue;
      }
      auto result = Elaborate(fixed, open);
      if (!result.ok()) {
        if (first_error_.ok()) first_error_ = InConfig(fixed, result.status());
        continue;
      }
      if (result->needs) {
        const size_t before = concrete.size();
        concrete.insert(result->needs->tunables.begin(), result->needs->tunables.end());
        if (concrete.size() == before) {
          return absl::InternalError("elaboration asks for a value that is not open");
        }
        pending.insert(pending.end(), group.begin(), group.end());
        continue;
      }
      for (const auto& [name, b] :
           BindRoles(result->program->program, result->program->tunables, r_.runtime)) {
        if (Axis* a = Find(name)) a->role = b.role;
      }
      digest_.Add(fixed, *result->program);
      auto piece = Piece::Make(fixed, *result->program, r_.runtime, r_.arch);
      if (!piece.ok()) return piece.status();
      NoteDemand(piece->demand());
      const int64_t n = static_cast<int64_t>(group.size());
      out_.pieces.push_back({*std::move(piece), {}, std::move(group), n});
    }
  }
  if (skipped_pieces_ > 0) {
    Note(absl::StrCat("sampled: ", out_.pieces.size(), " of ", out_.pieces.size() + skipped_pieces_,
                      " pieces elaborated"));
  }
  if (out_.pieces.empty()) return first_error_;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Expanded> ExpandRequest(const Request& request) { return Expander(request).Run(); }

}  // namespace kiln::roofline
