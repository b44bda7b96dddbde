#include "compiler/tools/signature_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "compiler/base/status.h"
#include "compiler/codegen/json_text.h"
#include "compiler/lang/interface.h"

namespace kiln::tools {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const std::vector<lang::Dimension>& dimensions) {
  Json out = Json::array();
  for (const lang::Dimension& d : dimensions) {
    int64_t literal = 0;
    if (d.kind == lang::Dimension::kLiteral && absl::SimpleAtoi(d.text, &literal)) {
      out.push_back(literal);
      continue;
    }
    Json one = {{"name", d.text}, {"kind", "computed"}};
    if (d.kind == lang::Dimension::kConstant) one["kind"] = "constant";
    if (d.kind == lang::Dimension::kRuntime) {
      one["kind"] = "runtime";
      one["dtype"] = d.type.ToString();
    }
    out.push_back(std::move(one));
  }
  return out;
}

Json ToJson(const lang::ParamSignature& param) {
  Json out = {{"name", param.info.name}};
  if (param.pointer) {
    out["kind"] = "pointer";
    return out;
  }
  const auto dtype = [&] { return param.dtype ? Json(param.dtype->ToString()) : Json(nullptr); };
  switch (param.info.kind) {
    case lang::ParamInfo::kTensor:
      out["kind"] = "tensor";
      out["shape"] = ToJson(param.shape);
      out["strides"] = param.strided ? ToJson(param.strides) : Json(nullptr);
      out["dtype"] = dtype();
      return out;
    case lang::ParamInfo::kRuntimeScalar:
      out["kind"] = "runtime";
      out["dtype"] = dtype();
      return out;
    case lang::ParamInfo::kCompileTime:
      break;
  }
  out["kind"] = "compile-time";
  out["required"] = !param.info.has_default;
  if (param.info.default_text) out["default"] = *param.info.default_text;
  return out;
}

}  // namespace

CLI::App* AddSignatureCommand(CLI::App* app, SignatureOptions* o) {
  CLI::App* command = app->add_subcommand(
      "signature", "What the parameters are: `$` marks constants, `$dyn` run-time values");
  AddKernelOptions(command, &o->kernel);
  command->add_flag("--json", o->json, "As JSON");
  return command;
}

absl::Status RunSignatureCommand(const SignatureOptions& o, std::ostream& out) {
  KILN_ASSIGN_OR_RETURN(const codegen::CompileInput input, ReadInput(o.kernel));
  auto file =
      std::make_shared<const SourceFile>(SourceFile{input.kernel_path, input.kernel_source});
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, input.entry));
  KILN_ASSIGN_OR_RETURN(const lang::Signature signature,
                        lang::ReadSignature(kernel, input.arguments));
  if (!o.json) {
    out << lang::ToString(signature) << "\n";
    return absl::OkStatus();
  }
  Json json = {{"kernel", signature.kernel}, {"parameters", Json::array()}};
  for (const lang::ParamSignature& param : signature.params) {
    json["parameters"].push_back(ToJson(param));
  }
  out << JsonText(json, 2) << "\n";
  return absl::OkStatus();
}

}  // namespace kiln::tools
