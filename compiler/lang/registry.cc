// Which names exist where: the modules that a kernel file may import, Python's built-in names, and
// the names of TileLang that are known but not supported.
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/builtin.h"
#include "compiler/lang/pass_options.h"
#include "compiler/lang/refused_names.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

constexpr EnumMember kGemmPolicies[] = {
    {"T.GemmWarpPolicy", "Square", 0},
    {"T.GemmWarpPolicy", "FullRow", 1},
    {"T.GemmWarpPolicy", "FullCol", 2},
};

constexpr EnumMember kOperationId = {"T", "WSID", 0, "tl.ws_op_id"};

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
  return {TileBuiltins(),         SparseBuiltins(),   ScanBuiltins(),     AtomicBuiltins(),
          MathBuiltins(),         BitBuiltins(),      RoundingBuiltins(), RandomBuiltins(),
          DebugBuiltins(),        DeviceBuiltins(),   AllocBuiltins(),    ViewBuiltins(),
          ReducerBuiltins(),      LoopBuiltins(),     ClusterBuiltins(),  BarrierBuiltins(),
          ThreadBuiltins(),       LayoutBuiltins(),   VectorBuiltins(),   ExternBuiltins(),
          TensorMemoryBuiltins(), ScheduleBuiltins(), OtherBuiltins()};
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
  for (const char* name :
       {"PrimExpr", "IntImm", "StringImm", "Any", "AnyDType", "Generic", "TypeVar"}) {
    t->members[name] = Value::TypeName(name);
  }
  t->members["int_"] = Value::TypeName("int");
  t->members["TYPE_CHECKING"] = Value::Bool(false);
  for (const auto& [name, own] :
       {std::pair("cdiv", "ceildiv"), std::pair("Unroll", "unroll"),
        std::pair("Vectorized", "vectorized"), std::pair("WarpSpecialize", "ws"),
        std::pair("sync_global", "sync_grid")}) {
    t->members[name] = t->members.at(own);
  }
  AddRefusedNames(&t->refused);
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
  for (const char* name :
       {"make_swizzled_layout", "make_full_bank_swizzled_layout", "make_half_bank_swizzled_layout",
        "make_quarter_bank_swizzled_layout", "make_linear_layout"}) {
    layout->members[name] = Imported(table, absl::StrCat("tilelang.", name));
  }
  // Those of one instruction's operands, in whose place the swizzle as such is.
  for (const char* name : {"make_wgmma_swizzled_layout", "make_tcgen05mma_swizzled_layout",
                           "make_volta_swizzled_layout"}) {
    layout->refused[name] = "use make_swizzled_layout(buffer), or leave it out: T.gemm chooses one";
  }
  for (const char* name : {"make_gemm_fragment_8x8", "make_gemm_fragment_8x8_transposed",
                           "make_fully_replicated_layout_fragment"}) {
    layout->refused[name] =
        "leave it out: the compiler chooses who holds a fragment's elements, or "
        "say it with T.Fragment";
  }
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
  root->members["lazy_jit"] = root->members.at("jit");
  root->members["autotune"] = Value::TypeName("autotune");
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
    AddTable(NumberTable(), absl::StrCat(path, "."), module);
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

// Modules of Python's library that make classes and functions of them.
void AddPython(ModuleMap* modules) {
  for (const char* path : {"enum", "dataclasses", "collections", "operator", "functools", "abc"}) {
    auto& slot = (*modules)[path];
    Module* module = slot ? slot.get() : Add(modules, path, path);
    AddTable(ObjectTable(), absl::StrCat(path, "."), module);
  }
  for (const char* path : {"logging", "warnings", "os", "collections"}) {
    auto& slot = (*modules)[path];
    Module* module = slot ? slot.get() : Add(modules, path, path);
    AddTable(LibraryTable(), absl::StrCat(path, "."), module);
  }
  Module* environ = Add(modules, "os.environ", "os.environ");
  AddTable(LibraryTable(), "os.environ.", environ);
  (*modules)["os"]->members["environ"] = Value::OfModule(environ);
  Module* logging = (*modules)["logging"].get();
  for (const auto& [name, level] : {std::pair("DEBUG", 10), std::pair("INFO", 20),
                                    std::pair("WARNING", 30), std::pair("ERROR", 40)}) {
    logging->members[name] = Value::Int(level);
  }
  for (const char* name : {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "unique"}) {
    (*modules)["enum"]->members[name] = Value::TypeName(name);
  }
  for (const char* name : {"dataclass", "field", "KW_ONLY", "InitVar"}) {
    (*modules)["dataclasses"]->members[name] = Value::TypeName(name);
  }
  for (const char* name : {"ABC", "abstractmethod"}) {
    (*modules)["abc"]->members[name] = Value::TypeName(name);
  }
  for (const char* name : {"lru_cache", "cache", "wraps", "cached_property"}) {
    (*modules)["functools"]->members[name] = Value::TypeName(name);
  }
}

ModuleMap BuildModules() {
  ModuleMap modules;
  AddLanguage(&modules);
  AddTilelang(&modules);
  Module* math = Add(&modules, "math", "math");
  AddTable(HostMathBuiltins(), "math.", math);
  AddTable(NumberTable(), "math.", math);
  math->members["inf"] = Value::Float(HUGE_VAL);
  math->members["nan"] = Value::Float(__builtin_nan(""));
  math->members["pi"] = Value::Float(3.14159265358979323846);
  math->members["tau"] = Value::Float(6.28318530717958647692);
  math->members["e"] = Value::Float(2.71828182845904523536);
  AddTorch(&modules);
  modules["numpy"]->members["inf"] = Value::Float(HUGE_VAL);
  for (const char* name : {"nan", "pi", "e"}) modules["numpy"]->members[name] = math->members[name];
  Module* typing = Add(&modules, "typing", "typing");
  for (const char* name : {"Any", "Optional", "Union", "List", "Tuple", "Dict", "Callable",
                           "Literal", "Sequence", "Type", "TypeVar", "NamedTuple", "ClassVar",
                           "Final", "Generic", "Protocol", "Iterable", "Mapping"}) {
    typing->members[name] = Value::TypeName(name);
  }
  AddPython(&modules);
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
  // What the language's own module imports is seen in it too.
  Module* language = modules["tilelang.language"].get();
  for (const auto& [name, path] :
       {std::pair("np", "numpy"), std::pair("torch", "torch"), std::pair("tvm", "tvm"),
        std::pair("tirx", "tvm.tirx"), std::pair("ir", "tvm.tirx")}) {
    language->members[name] = Value::OfModule(modules[path].get());
  }
  const auto& swizzles = modules["tilelang.intrinsics"]->members;
  for (const char* name : {"get_swizzle_layout", "make_mma_swizzle_layout"}) {
    language->members[name] = swizzles.at(name);
  }
  Module* dtypes = Add(&modules, "tilelang.language.dtypes", "T.dtypes");
  dtypes->has_dtypes = true;
  for (const char* name : {"dtype", "AnyDType", "get_tvm_dtype", "is_float4", "is_float4_e2m1fn",
                           "is_float4_e2m1_unpacked", "is_f8f6f4_family"}) {
    dtypes->members[name] = language->members.at(name);
  }
  language->members["dtypes"] = Value::OfModule(dtypes);
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
    AddTable(ObjectTable(), "", built.get());
    AddTable(LibraryTable(), "", built.get());
    for (const char* type : {"int",
                             "float",
                             "bool",
                             "str",
                             "list",
                             "tuple",
                             "dict",
                             "set",
                             "frozenset",
                             "object",
                             "Exception",
                             "ValueError",
                             "TypeError",
                             "RuntimeError",
                             "NotImplementedError",
                             "AssertionError",
                             "NotImplemented",
                             "slice",
                             "UserWarning",
                             "DeprecationWarning",
                             "RuntimeWarning"}) {
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
          ArrayMethods(), MethodTable(), TextMethods(), NumberTable(), ObjectTable(),
          TupleMethods(), SetMethods(), SetTypes(), LibraryTable(), LoggerMethods()}) {
      add(rows);
    }
    return table.release();
  }();
  return signatures.at(builtin.params);
}

}  // namespace kiln::lang
