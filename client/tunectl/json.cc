#include "client/tunectl/json.h"

#include <cstdio>

#include "absl/time/time.h"

namespace kiln::tunectl {
namespace {

using nlohmann::json;

std::string Text(absl::string_view text) { return std::string(text); }

json TimeJson(absl::Time time) {
  if (time == absl::InfinitePast()) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

}  // namespace

json ToJson(const client::Failure& failure) {
  return {{"stage", failure.stage},
          {"message", failure.message},
          {"witness", failure.witness},
          {"worker", failure.worker},
          {"killed_child", failure.killed_child}};
}

json ToJson(const client::Artifact& artifact) {
  return {{"digest", artifact.digest},
          {"binary_digest", artifact.binary_digest},
          {"size_bytes", artifact.size_bytes},
          {"scratch_bytes", artifact.scratch_bytes},
          {"registers", artifact.registers},
          {"spill_bytes", artifact.spill_bytes},
          {"code_bytes", artifact.code_bytes},
          {"compiler_build", artifact.compiler_build},
          {"compile_seconds", artifact.compile_seconds}};
}

json ToJson(const client::Measurement& m) {
  return {{"device", m.device},
          {"round", m.round},
          {"samples", m.sample_count},
          {"median_ns", m.median_ns},
          {"p25_ns", m.p25_ns},
          {"p75_ns", m.p75_ns},
          {"mad_ns", m.mad_ns},
          {"events_ns", m.events_ns},
          {"counters", m.counters},
          {"counters_missing", m.counters_missing},
          {"dropped", m.dropped},
          {"numbers_checked", m.numbers_checked},
          {"check_summary", m.check_summary},
          {"conditions", m.conditions}};
}

json ToJson(const client::Hint& hint) {
  return {{"predicted_ns", hint.predicted_ns},
          {"predicted_low_ns", hint.predicted_low_ns},
          {"predicted_high_ns", hint.predicted_high_ns},
          {"bound_by", hint.bound_by},
          {"reason", hint.reason},
          {"risks", hint.risks},
          {"fields", hint.fields},
          {"flops", hint.flops},
          {"dram_bytes", hint.dram_bytes},
          {"compulsory_bytes", hint.compulsory_bytes},
          {"roofline_ns", hint.roofline_ns}};
}

json ToJson(const client::ShapeRange& range) {
  return {{"dimension", range.name},
          {"low", range.low},
          {"high", range.high},
          {"points", range.points}};
}

json ToJson(const client::RangeTable& table) {
  json value = {
      {"dimension", table.dimension}, {"low", table.low},           {"high", table.high},
      {"variants", table.variants},   {"compared", table.compared}, {"single", table.single},
      {"dropped", table.dropped},     {"steps", json::array()},     {"points", json::array()}};
  for (const client::RangeStep& step : table.steps) {
    value["steps"].push_back(
        {{"first", step.first}, {"last", step.last}, {"variant", step.variant}});
  }
  for (const client::RangePoint& p : table.points) {
    value["points"].push_back({{"size", p.size},
                               {"tuned", p.tuned},
                               {"winner", p.winner},
                               {"failure", p.failure},
                               {"refused", p.refused},
                               {"sweep", p.sweep},
                               {"times_ns", p.times_ns},
                               {"dispatched_ns", p.dispatched_ns},
                               {"single_ns", p.single_ns},
                               {"ratio_low", p.ratio_low},
                               {"ratio_high", p.ratio_high}});
  }
  return value;
}

json ToJson(const client::SweepSpec& spec) {
  json value = {{"name", spec.name},
                {"kernel", spec.kernel_path},
                {"template", spec.template_name},
                {"entry", spec.entry},
                {"arguments", spec.arguments},
                {"auto_tunables", spec.auto_tunables},
                {"tunables", spec.tunables},
                {"configs", spec.configs},
                {"target", spec.target},
                {"objective", spec.objective == client::Objective::kCompile ? "compile" : "tune"},
                {"strategy", spec.strategy},
                {"seed", spec.seed},
                {"top_k", spec.top_k},
                {"max_candidates", spec.max_candidates},
                {"max_seconds", spec.max_seconds},
                {"user", spec.user},
                {"priority", spec.priority},
                {"deadline_seconds", spec.deadline_seconds},
                {"fresh", spec.fresh},
                {"runtime", spec.runtime_values}};
  if (spec.range.has_value()) value["range"] = ToJson(*spec.range);
  return value;
}

json ToJson(const client::Progress& p) {
  return {{"state", Text(client::ToString(p.state))},
          {"total", p.total},
          {"queued", p.queued},
          {"compiling", p.compiling},
          {"compiled", p.compiled},
          {"profiling", p.profiling},
          {"done", p.done},
          {"failed", p.failed},
          {"skipped", p.skipped},
          {"not_run", p.not_run},
          {"best_config", p.best_config},
          {"best_ns", p.best_ns},
          {"elapsed_seconds", p.elapsed_seconds},
          {"estimated_seconds_left", p.estimated_seconds_left},
          {"round", p.round},
          {"message", p.message}};
}

json ToJson(const client::Candidate& candidate) {
  json value = {
      {"config", candidate.config},     {"state", Text(client::ToString(candidate.state))},
      {"attempts", candidate.attempts}, {"same_binary_as", candidate.same_binary_as},
      {"hint", ToJson(candidate.hint)}, {"measurements", json::array()}};
  if (!candidate.artifact.digest.empty()) value["artifact"] = ToJson(candidate.artifact);
  if (candidate.failed) value["failure"] = ToJson(candidate.failure);
  for (const client::Measurement& m : candidate.measurements) {
    value["measurements"].push_back(ToJson(m));
  }
  return value;
}

json ToJson(const client::WinnerKey& key) {
  json value = {{"kernel", key.kernel},
                {"shapes", key.shapes},
                {"dtypes", key.dtypes},
                {"flags", key.flags},
                {"runtime", key.runtime},
                {"arch", key.arch},
                {"device_model", key.device_model},
                {"features", key.features},
                {"cores", key.cores},
                {"power", key.power},
                {"memory", key.memory},
                {"compiler", key.compiler},
                {"assembler", key.assembler},
                {"driver", key.driver},
                {"measurement", key.measurement},
                {"check", key.check},
                {"space", key.space}};
  if (key.range.has_value()) value["range"] = ToJson(*key.range);
  return value;
}

json ToJson(const client::LookupResult& result) {
  json value = {{"found", result.winner != nullptr},
                {"miss_reason", result.miss_reason},
                {"asked", ToJson(result.asked)},
                {"not_compared", result.not_compared},
                {"differences", json::array()}};
  for (const client::KeyDifference& d : result.differences) {
    value["differences"].push_back({{"field", d.field}, {"stored", d.stored}, {"asked", d.asked}});
  }
  if (result.winner != nullptr) {
    value["matched"] = Text(client::ToString(result.matched));
    value["winner"] = ToJson(*result.winner);
  } else if (!result.nearest.empty()) {
    value["nearest"] = result.nearest;
  }
  return value;
}

json ToJson(const client::Miss& miss) {
  return {{"id", miss.id},
          {"name", miss.spec.name},
          {"count", miss.count},
          {"first", TimeJson(miss.first)},
          {"last", TimeJson(miss.last)},
          {"users", miss.users},
          {"more_users", miss.more_users},
          {"reason", miss.reason},
          {"spec", ToJson(miss.spec)}};
}

json ToJson(const client::Winner& winner) {
  json value = {{"problem_key", winner.problem_key},
                {"winner_key", winner.winner_key},
                {"key", ToJson(winner.key)},
                {"sweep", winner.sweep},
                {"name", winner.name},
                {"config", winner.config},
                {"target", winner.target},
                {"device_model", winner.device_model},
                {"artifact", ToJson(winner.artifact)},
                {"measurement", ToJson(winner.measurement)},
                {"hint", ToJson(winner.hint)},
                {"ties", winner.ties},
                {"ratio_low", winner.ratio_low},
                {"ratio_high", winner.ratio_high},
                {"candidates_tried", winner.candidates_tried},
                {"candidates_failed", winner.candidates_failed},
                {"sweep_seconds", winner.sweep_seconds},
                {"finished", TimeJson(winner.finished)}};
  if (winner.range != nullptr) value["range"] = ToJson(*winner.range);
  return value;
}

json ToJson(const client::SweepSummary& summary) {
  json value = {{"sweep", summary.sweep},
                {"name", summary.name},
                {"target", summary.target},
                {"user", summary.user},
                {"progress", ToJson(summary.progress)},
                {"submitted", TimeJson(summary.submitted)},
                {"finished", TimeJson(summary.finished)}};
  if (!summary.parent.empty()) value["part_of"] = summary.parent;
  if (summary.range.has_value()) value["range"] = ToJson(*summary.range);
  return value;
}

json ToJson(const client::TimeAccount& time) {
  json value = {{"before_seconds", time.before_seconds},
                {"elapsed_seconds", time.elapsed_seconds},
                {"sweep", time.sweep},
                {"devices", json::array()}};
  for (const client::DeviceTime& device : time.devices) {
    value["devices"].push_back({{"device", device.device},
                                {"seconds", device.seconds},
                                {"idle_share", device.idle_share}});
  }
  return value;
}

json ToJson(const client::SweepDetails& details) {
  json value = ToJson(details.summary);
  value["spec"] = ToJson(details.spec);
  value["arch"] = {{"name", details.arch_name}, {"device_model", details.device_model}};
  value["seconds"] = details.seconds;
  if (details.time.has_value()) value["time"] = ToJson(*details.time);
  value["winner"] = details.winner == nullptr ? json(nullptr) : ToJson(*details.winner);
  if (details.range != nullptr) value["range"] = ToJson(*details.range);
  value["candidates"] = json::array();
  for (const client::Candidate& c : details.candidates) value["candidates"].push_back(ToJson(c));
  return value;
}

json ToJson(const client::WorkerInfo& worker) {
  return {{"name", worker.name},
          {"state", worker.state},
          {"compile_slots", worker.compile_slots},
          {"profile_slots", worker.profile_slots},
          {"busy_compile", worker.busy_compile},
          {"busy_profile", worker.busy_profile},
          {"archs", worker.archs},
          {"compiler_build", worker.compiler_build},
          {"assembler", worker.assembler},
          {"seconds_since_heartbeat", worker.seconds_since_heartbeat},
          {"notes", worker.notes}};
}

json ToJson(const client::Bar& bar) {
  return {{"id", bar.id},         {"config", bar.config},      {"sweep", bar.sweep},
          {"name", bar.name},     {"children", bar.children},  {"stage", bar.stage},
          {"reason", bar.reason}, {"last", TimeJson(bar.last)}};
}

void PrintJson(const json& value, int indent) {
  std::printf("%s\n", value.dump(indent, ' ', false, json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

}  // namespace kiln::tunectl
