#include "client/tunectl/command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/did_you_mean.h"
#include "client/tunectl/embedded_farm.h"
#include "compiler/base/diagnostic.h"
#include "compiler/base/status.h"
#include "proto/address.h"
#include "proto/limits.h"

namespace kiln::tunectl {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kOutOfRange:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnavailable:
      return kExitUnavailable;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitCancelled;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAborted:
      return kExitRefused;
    case absl::StatusCode::kDataLoss:
      return kExitCorrupt;
    default:
      return kExitInternal;
  }
}

int ExitCodeOf(client::SweepState state) {
  switch (state) {
    case client::SweepState::kDone:
      return kExitOk;
    case client::SweepState::kCancelled:
      return kExitCancelled;
    case client::SweepState::kFailed:
      return kExitSweepFailed;
    default:
      return kExitOk;
  }
}

absl::StatusOr<std::unique_ptr<client::Client>> Context::Connect() const {
  if (store.empty()) return client::Client::Connect(server);
  EmbeddedOptions options;
  options.store = std::filesystem::absolute(store).lexically_normal().string();
  options.worker = false;
  options.cancel = cancel;
  KILN_ASSIGN_OR_RETURN(farm, EmbeddedFarm::Start(options));
  return client::Client::Connect(farm->address());
}

client::CallOptions Context::Options() const {
  client::CallOptions options;
  options.timeout = absl::Seconds(timeout_seconds);
  options.watch.patience = absl::Seconds(reconnect_seconds);
  options.watch.on_lost = [seconds = reconnect_seconds](const absl::Status& why) {
    std::fprintf(stderr, "tunectl: lost the coordinator (%s); trying again for %g s\n",
                 std::string(why.message()).c_str(), seconds);
  };
  options.cancel = cancel;
  return options;
}

namespace {

constexpr char kAdvice[] = "; give it more with --timeout";

// Whoever has only tuned on this machine has no farm that runs, and asks for one all the same.
std::string StoreHint(const Context& context, const absl::Status& status) {
  if (!absl::IsUnavailable(status) || !context.store.empty()) return "";
  const auto store = DefaultStore();
  if (context.server != kDefaultAddress || !store.ok() || !IsTuneStore(*store)) return "";
  return absl::StrCat("; what `tunectl tune` found is seen with --store ", *store);
}

}  // namespace

absl::Status AdviseOnTimeout(const absl::Status& status, const std::string& advice) {
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(absl::StrCat(status.message(), kAdvice, advice));
}

int Fail(const Context& context, const absl::Status& given) {
  const int code = ExitCodeOf(given);
  const bool advised = absl::StrContains(given.message(), kAdvice);
  const absl::Status status =
      advised ? given
              : AdviseOnTimeout(given, ", or see in its log whether the coordinator is well");
  const std::string message = absl::StrCat(status.message(), StoreHint(context, status));
  if (!context.json) {
    std::fprintf(stderr, "tunectl: %s\n", message.c_str());
    return code;
  }
  nlohmann::json error = {
      {"code", absl::StatusCodeToString(status.code())}, {"exit_code", code}, {"message", message}};
  if (const auto diagnostic = DiagnosticOf(status); diagnostic.has_value()) {
    error["file"] = diagnostic->path;
    error["line"] = diagnostic->loc.line;
    error["column"] = diagnostic->loc.column;
    error["what"] = diagnostic->message;
    error["remedy"] = diagnostic->remedy;
  }
  std::printf("%s\n", nlohmann::json{{"error", error}}
                          .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                          .c_str());
  return code;
}

CLI::App* AddCommand(Context* context, const std::string& name, const std::string& summary,
                     const std::string& text, const std::vector<std::string>& examples) {
  CLI::App* const command = context->app->add_subcommand(name, summary);
  std::string footer = text;
  if (!examples.empty()) absl::StrAppend(&footer, "\n\nEXAMPLES");
  for (const std::string& example : examples) absl::StrAppend(&footer, "\n  ", example);
  command->footer(absl::StrCat("\n", footer));
  command->fallthrough();
  return command;
}

void AddChoiceFlags(CLI::App* command, SweepFlags* flags) {
  const char* const user = std::getenv("USER");
  flags->user = user == nullptr ? "" : user;
  flags->file_option =
      command->add_option("FILE", flags->file, "sweep file (YAML; grammar in client/README.md)")
          ->required();
  command
      ->add_option("--only", flags->only,
                   "only the sweep called TEXT, else those whose name contains it; repeatable")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  flags->set_option = command
                          ->add_option("--set", flags->settings,
                                       "give a compile-time argument another value; repeatable")
                          ->allow_extra_args(false)
                          ->type_name("NAME=VALUE");
  command->add_flag("--one", flags->one, "fail unless exactly one sweep is left (for builds)");
  command->add_option("--user", flags->user, "whom the farm counts the work for (default: $USER)")
      ->type_name("NAME");
}

void AddSweepFlags(CLI::App* command, SweepFlags* flags) {
  AddChoiceFlags(command, flags);
  command->add_flag("--fresh", flags->fresh, "ignore stored winners and measurements");
  flags->priority_option =
      command->add_option("--priority", flags->priority, "100 points double a sweep's share")
          ->type_name("N")
          ->check(CLI::Range(-100, 100));
}

void AddFromMissesFlags(CLI::App* command, SweepFlags* flags) {
  CLI::Option* const from =
      command->add_flag("--from-misses", flags->from_misses,
                        "what was looked up and not found (tunectl misses), in place of a file");
  flags->file_option->required(false);
  from->excludes(flags->file_option)->excludes(flags->set_option);
  command->add_option("--most", flags->most, "only the N most frequent misses; default all")
      ->needs(from)
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
}

namespace {

// A text that is the whole name of a sweep means that one, any other all whose name contains it.
bool Selected(const client::SweepSpec& spec, const std::vector<client::SweepSpec>& all,
              const std::vector<std::string>& only) {
  if (only.empty()) return true;
  return std::any_of(only.begin(), only.end(), [&](const std::string& text) {
    const bool whole =
        std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.name == text; });
    return whole ? spec.name == text : absl::StrContains(spec.name, text);
  });
}

absl::Status ApplySettings(const std::vector<std::string>& settings, client::SweepSpec* spec) {
  for (const std::string& setting : settings) {
    const size_t equal = setting.find('=');
    if (equal == std::string::npos || !IsIdentifier(setting.substr(0, equal)) ||
        equal + 1 == setting.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", setting, ": write NAME=VALUE, for example M=1024"));
    }
    spec->arguments[setting.substr(0, equal)] = setting.substr(equal + 1);
  }
  return absl::OkStatus();
}

// A value for all of several sweeps that differ in it makes them the same one, under names that
// lie.
absl::Status CheckSettings(const std::vector<std::string>& settings,
                           const std::vector<client::SweepSpec>& chosen) {
  const auto value = [](const client::SweepSpec& spec, const std::string& name) {
    const auto found = spec.arguments.find(name);
    return found == spec.arguments.end() ? "" : found->second;
  };
  for (const std::string& setting : settings) {
    const std::string name = setting.substr(0, setting.find('='));
    for (const client::SweepSpec& spec : chosen) {
      if (value(spec, name) == value(chosen[0], name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", setting, ": sweeps '", chosen[0].name, "' and '", spec.name,
                       "' differ in ", name, ": choose one of them with --only"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<client::SweepSpec>> LoadSweeps(const SweepFlags& flags) {
  if (flags.file.empty()) {
    return absl::InvalidArgumentError("FILE is missing: name a sweep file, or give --from-misses");
  }
  KILN_ASSIGN_OR_RETURN(std::vector<client::SweepSpec> all, client::LoadSweepFile(flags.file));
  return ChooseSweeps(std::move(all), flags.file, flags);
}

absl::StatusOr<std::vector<client::SweepSpec>> ChooseSweeps(std::vector<client::SweepSpec> all,
                                                            const std::string& source,
                                                            const SweepFlags& flags) {
  std::vector<client::SweepSpec> selected, chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(selected),
               [&](const auto& spec) { return Selected(spec, all, flags.only); });
  KILN_RETURN_IF_ERROR(CheckSettings(flags.settings, selected));
  for (client::SweepSpec& spec : selected) {
    KILN_RETURN_IF_ERROR(ApplySettings(flags.settings, &spec));
    if (flags.fresh) spec.fresh = true;
    if (spec.user.empty()) spec.user = flags.user;
    if (flags.priority_option != nullptr && flags.priority_option->count() > 0)
      spec.priority = flags.priority;
    // One bad miss must not hold up the others: each is checked when it is submitted.
    if (!flags.from_misses) KILN_RETURN_IF_ERROR(client::CheckSpec(spec));
    chosen.push_back(std::move(spec));
  }
  if (chosen.empty()) {
    return absl::NotFoundError(absl::StrCat("no sweep of ", source, " is called that; it has ",
                                            all.size(), " sweeps, the first is '", all.front().name,
                                            "'"));
  }
  if (flags.one && chosen.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " makes ", chosen.size(),
                     " sweeps, but --one wants one: choose with --only; the "
                     "first two are '",
                     chosen[0].name, "' and '", chosen[1].name, "'"));
  }
  return chosen;
}

}  // namespace kiln::tunectl
