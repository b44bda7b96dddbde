#include "compiler/lang/pass_options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

const std::vector<int64_t> kOff = {0, 1};

std::string Listed(const PassOptionRule& rule) {
  if (rule.flag) return "True or False";
  const size_t last = rule.values.size() - 1;
  std::string text = absl::StrJoin(rule.values.begin(), rule.values.begin() + last, ", ");
  return absl::StrCat(text, " or ", rule.values[last]);
}

}  // namespace

const std::vector<PassOptionRule>& PassOptionRules() {
  static const auto& rules = *new std::vector<PassOptionRule>{
      {"kiln.alternate", kOff},
      {"kiln.assembler", {0, 1, 2, 3}},
      {"kiln.bands", kOff},
      {"kiln.chain", kOff},
      {"kiln.cluster", {1, 2}},
      {"kiln.even_registers", kOff},
      {"kiln.instructions", {80, 86, 89, 90, 100}},
      {"kiln.persistent", kOff},
      {"kiln.pingpong", kOff},
      {"kiln.plain", kOff},
      {"kiln.sparse", kOff},
      {"kiln.table_alignment", {2, 4, 8, 16}},
      {"kiln.tcgen05", kOff},
      {"kiln.tf32", kOff},
      {"kiln.turn", kOff},
      {"tl.disable_safe_memory_legalize", kOff, true},
      {"tl.disable_thread_storage_sync", kOff, true},
      {"tl.disable_tma_lower", kOff, true},
      {"tl.disable_warp_specialized", kOff, true},
      {"tl.enable_fast_math", kOff, true},
      {"tl.ptxas_register_usage_level", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
  };
  return rules;
}

const std::vector<PassConfigKey>& PassConfigKeys() {
  static constexpr char kPass[] = "Kiln has passes of its own; write the kernel without it";
  static constexpr char kWide[] =
      "indices have the types that the kernel gives them; where a product passes 2^31, cast one "
      "side, as in T.cast(i, \"int64\") * stride";
  static constexpr char kSlow[] =
      "functions are exact unless a kernel asks for others: TL_ENABLE_FAST_MATH: True";
  static constexpr char kAlias[] = "tensors of a kernel never overlap; remove it";
  static const auto& keys = *new std::vector<PassConfigKey>{
      {"TL_SIMPLIFY", "tl.Simplify"},
      {"TL_DISABLE_DYNAMIC_TAIL_SPLIT", "tl.disable_dynamic_tail_split"},
      {"TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES", "transitively_prove_inequalities"},
      {"TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS", "convert_boolean_to_and_of_ors"},
      {"TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES",
       "apply_constraints_to_boolean_branches"},
      {"TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL",
       "propagate_knowns_to_prove_conditional"},
      {"TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS",
       "propagate_knowns_to_simplify_expressions"},
      {"TL_SIMPLIFY_ENABLE_LET_INLINE", "enable_simplify_let_inline"},
      {"TL_DISABLE_BUFFER_INIT_CHECK", "tl.disable_buffer_init_check"},
      {"TL_DISABLE_DATA_RACE_CHECK", "tl.disable_data_race_check"},
      {"TL_DISABLE_PRELOWER_SEMANTIC_CHECK", "tl.disable_prelower_semantic_check"},
      {"TL_DISABLE_WARP_SPECIALIZED", "tl.disable_warp_specialized"},
      {"TL_ENABLE_FAST_MATH", "tl.enable_fast_math"},
      {"TL_DISABLE_FAST_MATH", "tl.disable_fast_math", kSlow, "True"},
      {"TL_PTXAS_REGISTER_USAGE_LEVEL", "tl.ptxas_register_usage_level"},
      {"TL_ENABLE_PTXAS_VERBOSE_OUTPUT", "tl.enable_ptxas_verbose_output"},
      {"TL_DEVICE_COMPILE_FLAGS", "tl.device_compile_flags"},
      {"TL_EMIT_LINE_DIRECTIVES", "tl.emit_line_directives"},
      {"TL_CONFIG_INDEX_BITWIDTH", "tl.config_index_bitwidth", kWide, "32"},
      {"TL_ENABLE_REDUCER_PLAN_VERBOSE", "tl.enable_reducer_plan_verbose"},
      {"TL_LAYOUT_COST_MODEL", "tl.layout_cost_model"},
      {"TL_REDUCER_FORCE_BASELINE", "tl.reducer_force_baseline"},
      {"TL_DISABLE_TMA_LOWER", "tl.disable_tma_lower"},
      {"TL_DISABLE_SAFE_MEMORY_ACCESS", "tl.disable_safe_memory_legalize"},
      {"TL_DISABLE_VECTORIZE_256", "tl.disable_vectorize_256"},
      {"TL_ENABLE_ASYNC_COPY", "tl.enable_async_copy"},
      {"TL_ENABLE_LOWER_LDGSTG", "tl.enable_lower_ldgstg"},
      {"TL_ENABLE_LOWER_LDGSTG_PREDICATED", "tl.enable_lower_ldgstg_predicated"},
      {"TL_ENABLE_VECTORIZE_PLANNER_VERBOSE", "tl.enable_vectorize_planner_verbose"},
      {"TL_DISABLE_WGMMA", "tl.disable_wgmma"},
      {"TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS", "tl.debug_merge_shared_memory_allocations"},
      {"TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE", "tl.enable_aggressive_shared_memory_merge"},
      {"TL_DISABLE_SHARED_MEMORY_REUSE", "tl.disable_shared_memory_reuse"},
      {"TL_DISABLE_SHUFFLE_ELECT", "tl.disable_shuffle_elect"},
      {"TL_DISABLE_LOOP_UNSWITCHING", "tl.disable_loop_unswitching"},
      {"TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE", "tl.loop_unswitching_allow_non_trivial_else"},
      {"TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS", "tl.if_stmt_binding_inline_replayable_binds"},
      {"TL_DISABLE_THREAD_STORAGE_SYNC", "tl.disable_thread_storage_sync"},
      {"TL_FORCE_LET_INLINE", "tl.force_let_inline"},
      {"TL_AST_PRINT_ENABLE", "tl.ast_print_enable"},
      {"TL_LAYOUT_VISUALIZATION_ENABLE", "tl.layout_visualization_enable"},
      {"TL_LAYOUT_VISUALIZATION_FORMATS", "tl.layout_visualization_formats"},
      {"TL_STORAGE_REWRITE_DETECT_INPLACE", "tl.storage_rewrite_detect_inplace"},
      {"TIR_ENABLE_EQUIV_TERMS_IN_CSE", "tir.enable_equiv_terms_in_cse_tir"},
      {"TIR_DISABLE_CSE", "tirx.disable_cse_tir"},
      {"TIR_SIMPLIFY", "tirx.Simplify"},
      {"TIR_DISABLE_STORAGE_REWRITE", "tirx.disable_storage_rewrite"},
      {"TIR_DISABLE_VECTORIZE", "tirx.disable_vectorize"},
      {"TIR_USE_ASYNC_COPY", "tirx.use_async_copy"},
      {"TIR_ENABLE_DEBUG", "tirx.enable_debug"},
      {"TIR_MERGE_STATIC_SMEM", "tirx.merge_static_smem"},
      {"TIR_ADD_LOWER_PASS", "tirx.add_lower_pass", kPass, "None"},
      {"TIR_NOALIAS", "tirx.noalias", kAlias, "True"},
      {"CUDA_KERNELS_OUTPUT_DIR", "cuda.kernels_output_dir"},
      {"TL_DISABLE_OUT_OF_BOUND_WARNING", "tl.disable_out_of_bound_warning"},
      {"TL_ENABLE_DUMP_IR", "tl.enable_dump_ir"},
      {"TL_DUMP_IR_DIR", "tl.dump_ir_path"},
      {"TL_PASS_PROFILE", "tl.pass_profile"},
      {"TL_PASS_PROFILE_THRESHOLD_MS", "tl.pass_profile_threshold_ms"},
  };
  return keys;
}

const PassConfigKey* FindPassConfigKey(absl::string_view text) {
  for (const PassConfigKey& key : PassConfigKeys()) {
    if (text == key.text) return &key;
  }
  return nullptr;
}

PassOptionValue ReadPassOption(absl::string_view name, absl::string_view text) {
  const PassOptionRule* rule = nullptr;
  std::vector<std::string> names;
  for (const PassOptionRule& r : PassOptionRules()) {
    names.emplace_back(r.name);
    if (r.name == name) rule = &r;
  }
  if (rule == nullptr) {
    return {
        "", absl::StrCat("the pass option '", name, "' is not supported"),
        DidYouMean(name, names, absl::StrCat("remove it; there are ", absl::StrJoin(names, ", ")))};
  }
  int64_t value = text == "True" ? 1 : 0;
  const bool number = text == "True" || text == "False" || absl::SimpleAtoi(text, &value);
  if (!number || std::count(rule->values.begin(), rule->values.end(), value) == 0) {
    return {"", absl::StrCat("the pass option '", name, "' cannot be ", text),
            absl::StrCat("it takes ", Listed(*rule))};
  }
  return {rule->flag ? (value != 0 ? "true" : "false") : absl::StrCat(value), "", ""};
}

absl::Status CheckPassOptions(const Config& config) {
  for (const auto& [name, text] : config.values()) {
    if (!IsOptionName(name)) continue;
    const PassOptionValue value = ReadPassOption(name, text);
    if (value.fault.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("a config: ", value.fault, "; ", value.remedy));
  }
  return absl::OkStatus();
}

}  // namespace kiln::lang
