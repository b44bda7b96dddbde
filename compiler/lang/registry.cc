// Which names exist where: the modules that a kernel file may import, Python's built-in names, and
// the names of TileLang that are known but not supported.
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/builtin.h"
#include "compiler/lang/pass_options.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

constexpr EnumMember kGemmPolicies[] = {
    {"T.GemmWarpPolicy", "Square", 0},
    {"T.GemmWarpPolicy", "FullRow", 1},
    {"T.GemmWarpPolicy", "FullCol", 2},
};

constexpr EnumMember kOperationId = {"T", "WSID", 0, "tl.ws_op_id"};

struct Refusal {
  const char* names;
  const char* remedy;
};

// Names of TileLang that real kernels use and that Kiln does not have (yet): the nearest form that
// works here.
constexpr Refusal kRefused[] = {
    {"tma_load create_tma_descriptor tma_gather4 tma_gather4_bytes tma_scatter4 ds_read_tr16_b64 "
     "ds_read_tr8_b64",
     "use T.copy"},
    {"ptx_init_barrier_thread_count ptx_arrive_barrier ptx_fence_barrier_init "
     "named_barrier_arrive",
     "use T.alloc_barrier, T.barrier_arrive and T.barrier_wait"},
    {"WSSyncKind", "use T.WSSync.producer_acquire and its like"},
    {"thread_return", "put what follows under an if"},
    {"If Then While Assert let bind buffer_store",
     "write Python's own if, while, assert, names and x[i] = v"},
    {"ptx_wgmma_ss ptx_wgmma_rs ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts wgmma_mma tcgen05_mma "
     "initialize_wgmma_descriptor initialize_tcgen05_descriptor alloc_wgmma_desc "
     "alloc_tcgen05_smem_desc alloc_tcgen05_instruction_desc alloc_tcgen05_instr_desc mfma "
     "mfma_store tvm_mfma tvm_mfma_store tvm_rdna_wmma",
     "use T.gemm: the compiler picks the instruction"},
    {"tcgen05_gemm_blockscaled mma_gemm_blockscaled ptx_mma_block_scale "
     "ptx_tcgen05_mma_blockscaled_ss "
     "tcgen05_mma_blockscaled tcgen05_cp_warpx4 tcgen05_sf_warp_transpose",
     "multiply the factors by their scales into a T.alloc_shared tile, and use T.gemm on it"},
    {"clc_try_cancel clc_try_cancel_multicast clc_is_canceled clc_get_first_ctaid_x "
     "clc_get_first_ctaid_y clc_get_first_ctaid_z",
     "launch as many blocks as the machine has and share tiles with T.PersistentTileScheduler"},
    {"tcgen05_gemm_sp ptx_wgmma_sp_ss ptx_wgmma_sp_rs gemm_sp_v2",
     "use T.gemm_sp: the compiler picks the instruction"},
    {"call_intrin tvm_access_ptr call_packed tvm_call_cpacked CUDASourceCodeKernel",
     "write the computation with T's own functions"},
    {"sblock sblock_attr",
     "leave it out: write its statements into T.Parallel or T.serial, whose body needs no block"},
    {"reads writes", "leave it out: what a statement reads and writes is seen in it"},
    {"sblock_alloc_buffer", "use T.alloc_shared, T.alloc_fragment or T.alloc_local"},
    {"annotate_restrict_buffers",
     "pass tensors that lie apart: Kiln takes those of one call to share no element"},
};

void AddTable(BuiltinTable table, absl::string_view prefix, Module* module) {
  for (size_t i = 0; i < table.size; ++i) {
    absl::string_view name = table.rows[i].name;
    if (name.substr(0, prefix.size()) != prefix) continue;
    name.remove_prefix(prefix.size());
    if (name.find('.') != absl::string_view::npos) continue;  // of a module inside
    module->members[std::string(name)] = Value::OfBuiltin(&table.rows[i]);
  }
}

Value Imported(const BuiltinTable& table, absl::string_view full_name) {
  for (size_t i = 0; i < table.size; ++i) {
    if (full_name == table.rows[i].name) return Value::OfBuiltin(&table.rows[i]);
  }
  return Value::None();
}

using ModuleMap = std::map<std::string, std::unique_ptr<Module>, std::less<>>;

Module* Add(ModuleMap* modules, const std::string& path, const std::string& shown) {
  auto& slot = (*modules)[path];
  slot = std::make_unique<Module>();
  slot->name = shown;
  return slot.get();
}

// The tables of T's own functions.
std::vector<BuiltinTable> LanguageTables() {
  return {TileBuiltins(),         SparseBuiltins(),  ScanBuiltins(),     AtomicBuiltins(),
          MathBuiltins(),         BitBuiltins(),     RoundingBuiltins(), RandomBuiltins(),
          DebugBuiltins(),        DeviceBuiltins(),  AllocBuiltins(),    ViewBuiltins(),
          ReducerBuiltins(),      LoopBuiltins(),    ClusterBuiltins(),  BarrierBuiltins(),
          ThreadBuiltins(),       LayoutBuiltins(),  VectorBuiltins(),   ExternBuiltins(),
          TensorMemoryBuiltins(), ScheduleBuiltins()};
}

void AddLanguage(ModuleMap* modules) {
  Module* policy = Add(modules, "tilelang.language.GemmWarpPolicy", "T.GemmWarpPolicy");
  for (const EnumMember& member : kGemmPolicies) {
    policy->members[member.name] = Value::OfEnum(&member);
  }
  Module* t = Add(modules, "tilelang.language", "T");
  t->has_dtypes = true;
  for (const BuiltinTable& table : LanguageTables()) {
    AddTable(table, "T.", t);
  }
  t->members["GemmWarpPolicy"] = Value::OfModule(policy);
  t->members["ptr"] = Value::OfDType(kHandle);
  t->bundled = {"BaseTileScheduler",
                "PersistentTileScheduler",
                "TensorCoreIntrinEmitter",
                "WSPipeline",
                "WSRole",
                "WSScope",
                "WSSchedule",
                "WSSync",
                "ws_op"};
  t->members["WSID"] = Value::OfEnum(&kOperationId);
  for (const char* marker : {"Ref", "Var", "prim_func", "macro", "meta_class"}) {
    t->members[marker] = Value::TypeName(marker);
  }
  for (const Refusal& refusal : kRefused) {
    for (absl::string_view name : absl::StrSplit(refusal.names, ' ', absl::SkipEmpty())) {
      t->refused[std::string(name)] = refusal.remedy;
    }
  }
}

// Where products by hand come from, and the layouts of their tiles.
void AddEmitters(ModuleMap* modules, const BuiltinTable& table) {
  for (const char* path :
       {"tilelang.cuda.intrinsics", "tilelang.cuda.intrinsics.layout",
        "tilelang.cuda.intrinsics.layout.mma_layout", "tilelang.cuda.intrinsics.layout.utils",
        "tilelang.intrinsics.mma_layout", "tilelang.cuda.layout", "tilelang.intrinsics",
        "tilelang.cuda.intrinsics.macro", "tilelang.cuda.intrinsics.macro.mma_macro_generator",
        "tilelang.intrinsics.mma_macro_generator", "tilelang.cuda.language.intrinsics"}) {
    Module* module = Add(modules, path, path);
    for (const char* name : {"make_mma_swizzle_layout", "make_swizzled_layout"}) {
      module->members[name] = Imported(table, "tilelang.make_swizzled_layout");
    }
    module->members["get_swizzle_layout"] = Imported(table, "tilelang.get_swizzle_layout");
    module->bundled = {"TensorCoreIntrinEmitter"};
    for (const char* name :
         {"TensorCoreIntrinEmitterWithLadderTransform", "INT4TensorCoreIntrinEmitter",
          "INT4TensorCoreIntrinEmitterWithLadderTransform", "TensorCoreIntrinEmitterSM120",
          "TensorCoreIntrinEmitterSM75", "WGMMATensorCoreIntrinEmitter",
          "TCGEN05TensorCoreIntrinEmitter", "SparseTensorCoreIntrinEmitter"}) {
      module->refused[name] = "use T.gemm, for which the compiler picks the instruction";
    }
  }
}

// Modules around the language: what asks of the target, and other paths to the same things.
void AddAround(ModuleMap* modules, const BuiltinTable& table) {
  const Module& t = *(*modules)["tilelang.language"];
  Module* driver = Add(modules, "tilelang.carver.arch.driver", "driver");
  AddTable(TorchBuiltins(), "driver.", driver);
  Module* arch = Add(modules, "tilelang.carver.arch", "tilelang.carver.arch");
  arch->members["driver"] = Value::OfModule(driver);
  Module* carver = Add(modules, "tilelang.carver", "tilelang.carver");
  carver->members["arch"] = Value::OfModule(arch);
  for (const char* path : {"tilelang.utils.target", "tilelang.backend.target", "tilelang.utils",
                           "tilelang.language.fp8"}) {
    AddTable(TorchBuiltins(), "tilelang.", Add(modules, path, path));
  }
  for (const char* path : {"tilelang.tileop", "tilelang.tileop.base"}) {
    Add(modules, path, path)->members["GemmWarpPolicy"] = t.members.at("GemmWarpPolicy");
  }
  AddEmitters(modules, table);
  AddTable(SparseBuiltins(), "sparse_layout.",
           Add(modules, "tilelang.cuda.intrinsics.sparse_layout", "sparse_layout"));
  Module* schedule =
      Add(modules, "tilelang.language.tile_schedule", "tilelang.language.tile_schedule");
  schedule->bundled = {"BaseTileScheduler", "PersistentTileScheduler"};
  Add(modules, "tilelang.language.meta", "tilelang.language.meta")->members["meta_class"] =
      t.members.at("meta_class");
}

void AddTilelang(ModuleMap* modules) {
  const BuiltinTable table = TilelangBuiltins();
  Module* math = Add(modules, "tilelang.math", "tilelang.math");
  math->members["next_power_of_2"] = Imported(table, "tilelang.next_power_of_2");
  math->members["cdiv"] = Imported(table, "tilelang.cdiv");
  Module* layout = Add(modules, "tilelang.layout", "tilelang.layout");
  layout->members["make_swizzled_layout"] = Imported(table, "tilelang.make_swizzled_layout");
  layout->refused["make_cutlass_metadata_layout"] =
      "leave it out: T.gemm_sp takes metadata row by row, as TileLang's compressor makes it";
  Module* quantize = Add(modules, "tilelang.quantize", "tilelang.quantize");
  AddTable(ExternBuiltins(), "quantize.", quantize);
  Module* keys = Add(modules, "tilelang.PassConfigKey", "tilelang.PassConfigKey");
  static const auto& members = *new std::vector<EnumMember>([] {
    std::vector<EnumMember> list;
    for (const PassConfigKey& key : PassConfigKeys()) {
      list.push_back(
          {"tilelang.PassConfigKey", key.name, static_cast<int64_t>(list.size()), key.text});
    }
    return list;
  }());
  for (const EnumMember& member : members) keys->members[member.name] = Value::OfEnum(&member);
  Module* root = Add(modules, "tilelang", "tilelang");
  AddTable(table, "tilelang.", root);
  for (const char* path : {"tilelang.transform", "tilelang.transform.pass_config"}) {
    Add(modules, path, path)->members["PassConfigKey"] = Value::OfModule(keys);
  }
  AddAround(modules, table);
  root->members["math"] = Value::OfModule(math);
  root->members["layout"] = Value::OfModule(layout);
  root->members["carver"] = Value::OfModule((*modules)["tilelang.carver"].get());
  root->members["transform"] = Value::OfModule((*modules)["tilelang.transform"].get());
  root->members["intrinsics"] = Value::OfModule((*modules)["tilelang.intrinsics"].get());
  root->members["quantize"] = Value::OfModule(quantize);
  root->members["DataType"] = (*modules)["tilelang.language"]->members.at("dtype");
  root->members["PassConfigKey"] = Value::OfModule(keys);
  root->members["language"] = Value::OfModule((*modules)["tilelang.language"].get());
  for (const char* marker : {"jit", "lazy_jit", "autotune"}) {
    root->members[marker] = Value::TypeName(marker);
  }
  Module* itertools = Add(modules, "itertools", "itertools");
  AddTable(table, "itertools.", itertools);
  AddTable(table, "functools.", Add(modules, "functools", "functools"));
}

// Dtypes, tensors without data, and what asks of the target.
void AddTorch(ModuleMap* modules) {
  for (const char* path : {"torch", "numpy"}) {
    Module* module = Add(modules, path, path);
    module->has_dtypes = true;
    AddTable(TorchBuiltins(), absl::StrCat(path, "."), module);
    AddTable(TilelangBuiltins(), absl::StrCat(path, "."), module);
  }
  Module* random = Add(modules, "numpy.random", "numpy.random");
  AddTable(TorchBuiltins(), "numpy.random.", random);
  (*modules)["numpy"]->members["random"] = Value::OfModule(random);
  Module* torch = (*modules)["torch"].get();
  Module* cuda = Add(modules, "torch.cuda", "torch.cuda");
  AddTable(TorchBuiltins(), "torch.cuda.", cuda);
  torch->members["cuda"] = Value::OfModule(cuda);
  Module* version = Add(modules, "torch.version", "torch.version");
  version->members["hip"] = Value::None();
  torch->members["version"] = Value::OfModule(version);
}

ModuleMap BuildModules() {
  ModuleMap modules;
  AddLanguage(&modules);
  AddTilelang(&modules);
  Module* math = Add(&modules, "math", "math");
  AddTable(HostMathBuiltins(), "math.", math);
  math->members["inf"] = Value::Float(HUGE_VAL);
  math->members["nan"] = Value::Float(__builtin_nan(""));
  math->members["pi"] = Value::Float(3.14159265358979323846);
  math->members["e"] = Value::Float(2.71828182845904523536);
  AddTorch(&modules);
  modules["numpy"]->members["inf"] = Value::Float(HUGE_VAL);
  modules["numpy"]->members["pi"] = math->members["pi"];
  Module* typing = Add(&modules, "typing", "typing");
  for (const char* name : {"Any", "Optional", "Union", "List", "Tuple", "Dict", "Callable",
                           "Literal", "Sequence", "Type", "TypeVar"}) {
    typing->members[name] = Value::TypeName(name);
  }
  // DataType(x).bits and the expression helpers that dequantisation code takes from tvm.
  Module* tir = Add(&modules, "tvm.tir", "tvm.tir");
  const auto& t = modules["tilelang.language"]->members;
  tir->members["reinterpret"] = t.at("reinterpret");
  tir->members["const"] = t.at("cast");  // const(value, dtype)
  tir->members["PrimExpr"] = Value::TypeName("PrimExpr");
  Module* layout = Add(&modules, "tvm.tirx.layout", "tvm.tirx.layout");
  AddTable(TirxBuiltins(), "tirx.", layout);
  AddLayoutAxes(&layout->members);
  for (const auto& [name, value] : layout->members) {
    modules["tilelang.layout"]->members.emplace(name, value);
  }
  Module* tirx = Add(&modules, "tvm.tirx", "tvm.tirx");
  tirx->members = tir->members;
  tirx->members["layout"] = Value::OfModule(layout);
  Module* tvm = Add(&modules, "tvm", "tvm");
  tvm->members["DataType"] = t.at("dtype");
  tvm->members["tir"] = Value::OfModule(tir);
  tvm->members["tirx"] = Value::OfModule(tirx);
  Module* tilelang = modules["tilelang"].get();
  tilelang->members["tvm"] = Value::OfModule(tvm);
  auto& alias = modules["tilelang.tvm"];
  alias = std::make_unique<Module>(*tvm);
  return modules;
}

const ModuleMap& Modules() {
  static const ModuleMap& modules = *std::make_unique<ModuleMap>(BuildModules()).release();
  return modules;
}

BuiltinSignature ParseSignature(const char* params) {
  BuiltinSignature signature;
  bool by_keyword = false;
  for (absl::string_view word : absl::StrSplit(params, ' ', absl::SkipEmpty())) {
    if (word == "*") {
      signature.variadic = true;
      by_keyword = true;
      continue;
    }
    if (word == "**") {
      signature.any_keyword = true;
      continue;
    }
    const bool optional = word.back() == '?';
    if (optional) word.remove_suffix(1);
    signature.names.push_back(word);
    signature.optional.push_back(optional);
    if (!by_keyword) ++signature.positional;
  }
  return signature;
}

}  // namespace

const Module* FindModule(absl::string_view path) {
  const auto it = Modules().find(path);
  return it == Modules().end() ? nullptr : it->second.get();
}

const Module& PythonBuiltins() {
  static const Module& module = *[] {
    auto built = std::make_unique<Module>();
    built->name = "python";
    AddTable(PythonTable(), "", built.get());
    for (const char* type : {"int", "float", "bool", "str", "list", "tuple", "dict", "object",
                             "Exception", "ValueError", "TypeError", "RuntimeError",
                             "NotImplementedError", "AssertionError", "type", "slice"}) {
      built->members[type] = Value::TypeName(type);
    }
    return built.release();
  }();
  return module;
}

const BuiltinSignature& SignatureOf(const Builtin& builtin) {
  // Built once for every distinct parameter list, before any thread can see the table change.
  static const auto& signatures = *[] {
    auto table = std::make_unique<absl::flat_hash_map<const char*, BuiltinSignature>>();
    auto add = [&](const BuiltinTable& rows) {
      for (size_t i = 0; i < rows.size; ++i) {
        table->try_emplace(rows.rows[i].params, ParseSignature(rows.rows[i].params));
      }
    };
    for (const BuiltinTable& rows : LanguageTables()) add(rows);
    for (const BuiltinTable& rows :
         {TirxBuiltins(), PythonTable(), HostMathBuiltins(), TilelangBuiltins(), TorchBuiltins(),
          ArrayMethods(), MethodTable()}) {
      add(rows);
    }
    return table.release();
  }();
  return signatures.at(builtin.params);
}

}  // namespace kiln::lang
