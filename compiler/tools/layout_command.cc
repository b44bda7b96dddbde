#include "compiler/tools/layout_command.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/dtype.h"
#include "compiler/base/status.h"
#include "compiler/codegen/json_text.h"
#include "compiler/layout/describe.h"
#include "compiler/layout/draw.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/inverse.h"
#include "compiler/layout/presets.h"
#include "compiler/layout/text.h"
#include "compiler/layout/witness.h"
#include "compiler/tools/layout_page/layout_page.h"

namespace kiln::tools {
namespace {

using layout::Axis;
using layout::Layout;
using layout::View;
using Json = nlohmann::ordered_json;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// What the options say, checked.
struct Subject {
  Layout layout;
  View view;
};

absl::StatusOr<std::vector<int64_t>> Integers(absl::string_view option, absl::string_view text) {
  std::vector<int64_t> values;
  for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(",x"))) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(part, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " ", text, ": '", part, "' is not an integer"));
    }
    values.push_back(value);
  }
  return values;
}

absl::StatusOr<int> ElementBits(const LayoutOptions& o, int preset_bits) {
  if (o.bytes > 0 && !o.dtype.empty()) {
    return absl::InvalidArgumentError("give --dtype or --bytes, not both");
  }
  if (o.bytes > 0) return o.bytes * 8;
  if (o.dtype.empty()) return preset_bits;
  const std::optional<DType> type = ParseDType(o.dtype);
  if (!type.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown dtype '", o.dtype,
                     "'; float16, bfloat16, float32, float8_e4m3fn, int8 and others"));
  }
  return type->bits * type->lanes;
}

// The layout with the swizzle that the option names on m, instead of the one it has there.
absl::StatusOr<Layout> Swizzled(const Layout& l, absl::string_view option, int element_bits) {
  layout::SwizzleLayout swizzle;
  const auto mode = layout::ParseSwizzleMode(option);
  if (mode.ok() && *mode != layout::SwizzleMode::kNone) {
    KILN_ASSIGN_OR_RETURN(swizzle, layout::SwizzleFor(element_bits, *mode));
  } else if (!mode.ok()) {
    const auto numbers = Integers("--swizzle", option);
    if (!numbers.ok() || numbers->size() != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("--swizzle ", option, ": three numbers M,B,S, or none, 32B, 64B or 128B"));
    }
    for (const int64_t n : *numbers) {
      if (n < 0 || n > 60) {
        return absl::InvalidArgumentError(absl::StrCat("--swizzle ", option, ": 0 to 60"));
      }
    }
    KILN_ASSIGN_OR_RETURN(swizzle, layout::SwizzleLayout::Make(static_cast<int>((*numbers)[0]),
                                                               static_cast<int>((*numbers)[1]),
                                                               static_cast<int>((*numbers)[2])));
  }
  std::vector<layout::SwizzleLayout> swizzles;
  for (const layout::SwizzleLayout& s : l.swizzles()) {
    if (s.axis != Axis::kM) swizzles.push_back(s);
  }
  swizzles.push_back(swizzle);
  return Layout::FromIters(l.shard(), l.replica(), l.offset(), std::move(swizzles));
}

absl::StatusOr<Subject> Resolve(const LayoutOptions& o) {
  layout::Preset preset;
  if (o.layout.empty()) {
    return absl::InvalidArgumentError("give a layout, as text or as the name of a preset (--list)");
  }
  if (layout::LooksLikePreset(o.layout)) {
    KILN_ASSIGN_OR_RETURN(preset, layout::FindPreset(o.layout));
  } else {
    KILN_ASSIGN_OR_RETURN(preset.layout, layout::Parse(o.layout));
  }
  KILN_ASSIGN_OR_RETURN(const int bits, ElementBits(o, preset.element_bits));
  if (!o.swizzle.empty()) {
    KILN_ASSIGN_OR_RETURN(preset.layout, Swizzled(preset.layout, o.swizzle, bits));
  }
  std::vector<int64_t> shape = preset.shape;
  if (!o.shape.empty()) {
    KILN_ASSIGN_OR_RETURN(shape, Integers("--shape", o.shape));
  }
  KILN_ASSIGN_OR_RETURN(View view, layout::ViewOf(preset.layout, std::move(shape), bits));
  return Subject{std::move(preset.layout), std::move(view)};
}

absl::StatusOr<int64_t> ElementOf(const LayoutOptions& o, const Subject& s) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> coord, Integers("--element", o.element));
  if (coord.size() == 1) return layout::Flatten(coord, {s.layout.size()});
  return layout::Flatten(coord, s.view.shape);
}

// ---- JSON ----

Json IterJson(const layout::Iter& iter) {
  return {{"extent", iter.extent},
          {"stride", iter.stride},
          {"axis", std::string(layout::NameOf(iter.axis))}};
}

Json CoordJson(const layout::Coord& coord) {
  Json json = Json::object();
  for (const auto& [axis, value] : coord.values()) {
    json[std::string(layout::NameOf(axis))] = value;
  }
  return json;
}

Json PartsJson(const Layout& l) {
  Json json = {{"shard", Json::array()},
               {"replica", Json::array()},
               {"offset", Json::object()},
               {"swizzles", Json::array()}};
  for (const layout::Iter& iter : l.shard()) json["shard"].push_back(IterJson(iter));
  for (const layout::Iter& iter : l.replica()) json["replica"].push_back(IterJson(iter));
  for (const auto& [axis, value] : l.offset()) {
    json["offset"][std::string(layout::NameOf(axis))] = value;
  }
  for (const layout::SwizzleLayout& s : l.swizzles()) {
    json["swizzles"].push_back({{"per_element", s.per_element},
                                {"swizzle_len", s.swizzle_len},
                                {"atom_len", s.atom_len},
                                {"inner", s.inner},
                                {"axis", std::string(layout::NameOf(s.axis))}});
  }
  return json;
}

Json InjectiveJson(const Layout& l) {
  const auto collision = layout::SearchCollision(l);
  if (!collision.ok()) {
    return {{"decided", false}, {"why", std::string(collision.status().message())}};
  }
  if (!collision->has_value()) return {{"decided", true}, {"holds", true}};
  return {{"decided", true},
          {"holds", false},
          {"witness",
           {{"element", (*collision)->element},
            {"copy", (*collision)->copy},
            {"other", (*collision)->other},
            {"other_copy", (*collision)->other_copy},
            {"at", CoordJson((*collision)->at)}}}};
}

Json InverseJson(const Layout& l) {
  const auto inverse = layout::Inverse::Of(l);
  if (!inverse.ok()) return {{"exists", false}, {"why", std::string(inverse.status().message())}};
  Json guards = Json::array();
  for (const layout::Guard& guard : inverse->guards()) guards.push_back(guard.ToString());
  return {{"exists", true},
          {"formulas", layout::InverseLines(l, *inverse)},
          {"guards", std::move(guards)}};
}

Json ElementJson(const Subject& s, int64_t flat, bool addresses) {
  Json json = {{"element", flat},
               {"coord", layout::Unflatten(flat, s.view.shape)},
               {"points", Json::array()}};
  for (const layout::Coord& point : s.layout.Apply(flat)) {
    Json place = CoordJson(point);
    if (addresses) {
      const int64_t address = point[Axis::kM];
      place["bank"] = layout::BankOfBits(address, s.view.element_bits);
      place["line"] = Json::parse(layout::LineOfBits(address, s.view.element_bits));
    }
    json["points"].push_back(std::move(place));
  }
  return json;
}

std::string MachineForm(const Subject& s, int64_t limit) {
  const Layout& l = s.layout;
  Json json = {{"layout", l.ToString()}, {"canonical", layout::Canonical(l).ToString()}};
  json.update(PartsJson(l));
  json["size"] = l.size();
  json["copies"] = l.copies();
  json["axes"] = Json::array();
  for (const Axis axis : l.axes()) {
    const auto [low, high] = l.Range(axis);
    json["axes"].push_back({{"name", std::string(layout::NameOf(axis))},
                            {"low", low},
                            {"high", high},
                            {"span", l.Span(axis)}});
  }
  json["injective"] = InjectiveJson(l);
  json["inverse"] = InverseJson(l);
  json["shape"] = s.view.shape;
  json["element_bits"] = s.view.element_bits;
  const bool addresses =
      layout::Cells(l, s.view.element_bits).kind() == layout::Cells::Kind::kAddress;
  const int64_t shown = std::min(l.size(), limit / l.copies());
  json["elements"] = Json::array();
  for (int64_t x = 0; x < shown; ++x) json["elements"].push_back(ElementJson(s, x, addresses));
  json["elements_left_out"] = l.size() - shown;
  return JsonText(json, 1) + "\n";
}

// ---- the command ----

std::string ListOfPresets() {
  std::string text;
  for (const layout::PresetFamily& family : layout::PresetFamilies()) {
    absl::StrAppend(&text, family.name, *family.parameters == '\0' ? "" : ":", family.parameters,
                    "\n    ", family.about, "\n");
  }
  absl::StrAppend(&text, "\n");
  for (const std::string& name : layout::PresetNames()) {
    const auto preset = layout::FindPreset(name);
    KILN_CHECK(preset.ok());
    absl::StrAppend(&text, name, "  ", preset->layout.ToString(), "\n");
  }
  return text;
}

bool WriteFile(const std::string& path, const std::string& text, std::ostream& out,
               std::ostream& err) {
  if (path == "-") {
    out << text;
    return true;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return true;
  err << "cannot write '" << path << "'\n";
  return false;
}

layout::DrawLimits Limits(const LayoutOptions& o, layout::DrawLimits usual) {
  return {o.rows > 0 ? o.rows : usual.rows, o.columns > 0 ? o.columns : usual.columns};
}

int Show(const LayoutOptions& o, const Subject& s, std::ostream& out, std::ostream& err) {
  if (!o.svg.empty() &&
      !WriteFile(o.svg, layout::DrawSvg(s.layout, s.view, Limits(o, {64, 64}), s.layout.ToString()),
                 out, err)) {
    return kExitFailed;
  }
  if (!o.html.empty()) {
    const std::string page = LayoutPage({s.layout.ToString(), s.view.shape, s.view.element_bits});
    if (!WriteFile(o.html, page, out, err)) return kExitFailed;
  }
  if (o.json) {
    out << MachineForm(s, o.limit);
  } else if (!o.element.empty()) {
    const absl::StatusOr<int64_t> flat = ElementOf(o, s);
    if (!flat.ok()) {
      err << flat.status().message() << "\n";
      return kExitUsage;
    }
    out << layout::DescribeElement(s.layout, s.view, *flat);
  } else if (o.svg.empty() && o.html.empty()) {
    out << layout::Describe(s.layout, s.view) << "\n"
        << layout::DrawText(s.layout, s.view, Limits(o, {32, 16}));
  }
  return 0;
}

}  // namespace

CLI::App* AddLayoutCommand(CLI::App* app, LayoutOptions* o) {
  CLI::App* command =
      app->add_subcommand("layout", "Print and draw a layout: who owns each element, and its bank");
  command->add_option("layout", o->layout, "Layout text like 'S[(8,64):(64,1)]', or a preset");
  command->add_option("--shape", o->shape, "Logical shape R,C; the last dimension is drawn across");
  command->add_option("--dtype", o->dtype, "Element type, for banks and lines");
  command->add_option("--bytes", o->bytes, "The same by its width")->check(CLI::Range(1, 16));
  command->add_option("--swizzle", o->swizzle, "M,B,S, or none, 32B, 64B, 128B of the dtype, on m");
  command->add_option("--element", o->element, "Describe one element only: I,J or its flat index");
  command->add_option("--rows", o->rows, "Rows drawn")->check(CLI::Range(1, 512));
  command->add_option("--cols", o->columns, "Columns drawn")->check(CLI::Range(1, 512));
  command->add_flag("--json", o->json, "The machine form, with the points of every element");
  command->add_option("--limit", o->limit, "Points in the JSON")
      ->check(CLI::Range(1, 1 << 22))
      ->capture_default_str();
  command->add_option("--svg", o->svg, "Write the drawing to this file; - for standard output");
  command->add_option("--html", o->html, "Write a page to choose, edit and click layouts");
  command->add_flag("--list", o->list, "The presets");
  return command;
}

int RunLayoutCommand(const LayoutOptions& options, std::ostream& out, std::ostream& err) {
  if (options.list) {
    out << ListOfPresets();
    return 0;
  }
  LayoutOptions o = options;
  if (o.layout.empty() && !o.html.empty()) o.layout = layout::PresetNames().front();
  const absl::StatusOr<Subject> subject = Resolve(o);
  if (!subject.ok()) {
    err << subject.status().message() << "\n";
    return kExitUsage;
  }
  return Show(o, *subject, out, err);
}

}  // namespace kiln::tools
