#include "client/tunectl/roofline_svg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/tunectl/format.h"
#include "compiler/target/arch.h"

namespace kiln::tunectl {
namespace {

constexpr double kWidth = 960, kHeight = 600;
constexpr double kLeft = 80, kRight = 30, kTop = 50, kBottom = 60;

struct Point {
  double intensity = 0;  // operations for each byte, as predicted
  double counted = 0;    // ... as the hardware counted, else as predicted
  double predicted = 0;  // Gop/s
  double measured = 0;   // Gop/s; 0 = not measured
  bool failed = false;
  bool winner = false;
  std::string title;
};

struct Roof {
  std::string label;
  double slope = 0;  // GB/s, for a memory level
  double level = 0;  // Gop/s, for a unit
  bool main = false;
};

// The range of an axis in powers of ten.
struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Include(double value) {
    if (!(value > 0) || !std::isfinite(value)) return;
    low = std::min(low, std::log10(value));
    high = std::max(high, std::log10(value));
  }
  void Round(double margin) {
    low = std::floor((low - margin) * 2) / 2;
    high = std::ceil((high + margin) * 2) / 2;
  }
};

std::string Escape(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

class Chart {
 public:
  explicit Chart(const client::SweepDetails& details) : details_(details) {}

  bool ReadPoints();
  void ReadRoofs();
  std::string Draw();

 private:
  double X(double value) const {
    return kLeft + (std::log10(value) - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  double Y(double value) const {
    return kHeight - kBottom -
           (std::log10(value) - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }
  void FitAxes();
  void DrawFrame();
  void DrawTicks();
  void DrawRoof(const Roof& roof);
  void DrawPoint(const Point& point);
  void Line(double x1, double y1, double x2, double y2, absl::string_view style);
  void Text(double x, double y, absl::string_view anchor, absl::string_view text);

  const client::SweepDetails& details_;
  bool bytes_ = false;  // an operation is a byte that must move
  std::vector<Point> points_;
  std::vector<Roof> roofs_;
  Axis x_, y_;
  int flat_roofs_ = 0;
  std::string svg_;
};

bool Chart::ReadPoints() {
  bytes_ = std::all_of(details_.candidates.begin(), details_.candidates.end(),
                       [](const client::Candidate& c) { return !(c.hint.flops > 0); });
  for (const client::Candidate& c : details_.candidates) {
    const double operations = bytes_ ? c.hint.compulsory_bytes : c.hint.flops;
    const double moved = c.hint.dram_bytes > 0 ? c.hint.dram_bytes : c.hint.compulsory_bytes;
    if (!(operations > 0) || !(moved > 0) || !(c.hint.predicted_ns > 0)) continue;
    Point point;
    point.intensity = operations / moved;
    point.counted = point.intensity;
    if (const client::Measurement* m = Counted(c); m != nullptr && !m->counters.empty()) {
      double bytes = 0;
      for (const char* name : {"dram_read_bytes", "dram_write_bytes"}) {
        const auto it = m->counters.find(name);
        bytes += it == m->counters.end() ? 0 : it->second;
      }
      if (bytes > 0) point.counted = operations / bytes;
    }
    point.predicted = operations / c.hint.predicted_ns;
    const double ns = MeasuredNs(c);
    point.measured = ns > 0 ? operations / ns : 0;
    point.failed = c.failed;
    point.winner = details_.winner != nullptr && details_.winner->config == c.config;
    point.title = absl::StrCat(c.config, ": predicted ", FormatNs(c.hint.predicted_ns),
                               ", measured ", FormatNs(ns), ", bound by ", c.hint.bound_by,
                               c.failed ? absl::StrCat("; failed: ", c.failure.message) : "");
    points_.push_back(std::move(point));
  }
  return !points_.empty();
}

void Chart::ReadRoofs() {
  const absl::StatusOr<target::Arch> arch = target::ParseArch(details_.arch_record);
  if (!arch.ok()) return;
  const auto level = [&](const char* name, const target::MemoryLevel& memory, bool main) {
    const double rate = std::max(memory.read_all, memory.copy_all);
    if (rate > 0) roofs_.push_back({absl::StrFormat("%s %.3g GB/s", name, rate), rate, 0, main});
  };
  level("memory", arch->dram, true);
  level("last-level cache", arch->llc, false);
  if (bytes_) return;
  for (const target::ComputeUnit& unit : arch->units) {
    if (unit.unit == "sfu" || !(unit.all > 0)) continue;
    roofs_.push_back(
        {absl::StrFormat("%s %s %.4g GFLOP/s", unit.unit, unit.type.ToString(), unit.all), 0,
         unit.all, unit.unit == "fma" && unit.type == kFloat32});
  }
}

void Chart::FitAxes() {
  double fastest = 0;
  for (const Point& p : points_) {
    x_.Include(p.intensity);
    x_.Include(p.counted);
    y_.Include(p.predicted);
    y_.Include(p.measured);
    fastest = std::max({fastest, p.predicted, p.measured});
  }
  for (const Roof& roof : roofs_) {
    if (roof.main && roof.level > 0) y_.Include(roof.level);
    if (roof.main && roof.slope > 0) x_.Include(std::max(fastest, 1e-9) / roof.slope);
  }
  x_.Round(0.5);
  y_.Round(0.3);
}

void Chart::Line(double x1, double y1, double x2, double y2, absl::string_view style) {
  absl::StrAppendFormat(&svg_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1,
                        y1, x2, y2, style);
}

void Chart::Text(double x, double y, absl::string_view anchor, absl::string_view text) {
  absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
                        anchor, Escape(text));
}

void Chart::DrawTicks() {
  constexpr char kGrid[] = "stroke=\"#ddd\"";
  for (int e = static_cast<int>(std::ceil(x_.low)); e <= x_.high; ++e) {
    const double x = X(std::pow(10.0, e));
    Line(x, kTop, x, kHeight - kBottom, kGrid);
    Text(x, kHeight - kBottom + 18, "middle", absl::StrFormat("%g", std::pow(10.0, e)));
  }
  for (int e = static_cast<int>(std::ceil(y_.low)); e <= y_.high; ++e) {
    const double y = Y(std::pow(10.0, e));
    Line(kLeft, y, kWidth - kRight, y, kGrid);
    Text(kLeft - 8, y + 4, "end", absl::StrFormat("%g", std::pow(10.0, e)));
  }
}

void Chart::DrawFrame() {
  absl::StrAppendFormat(&svg_,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                        "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
                        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                        kWidth, kHeight, kWidth, kHeight);
  DrawTicks();
  absl::StrAppendFormat(&svg_,
                        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
                        "stroke=\"#333\"/>\n",
                        kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom);
  Text(
      kLeft, 24, "start",
      absl::StrCat(details_.summary.name, " on ", details_.arch_name,
                   details_.device_model.empty() ? "" : absl::StrCat(", ", details_.device_model)));
  Text((kLeft + kWidth - kRight) / 2, kHeight - 18, "middle",
       bytes_ ? "useful bytes for each byte from memory"
              : "floating-point operations for each byte from memory");
  absl::StrAppendFormat(&svg_,
                        "<text transform=\"translate(20 %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\">%s</text>\n",
                        kHeight / 2, bytes_ ? "useful GB/s" : "GFLOP/s");
}

void Chart::DrawRoof(const Roof& roof) {
  const std::string style = roof.main
                                ? "stroke=\"#444\" stroke-width=\"2\""
                                : "stroke=\"#999\" stroke-width=\"1\" stroke-dasharray=\"6 4\"";
  const double low = std::pow(10.0, y_.low), high = std::pow(10.0, y_.high);
  const double left = std::pow(10.0, x_.low), right = std::pow(10.0, x_.high);
  if (roof.level > 0) {
    if (roof.level < low || roof.level > high) return;
    Line(kLeft, Y(roof.level), kWidth - kRight, Y(roof.level), style);
    // Rates of different types may be close: their labels stand side by side, not on each other.
    Text(kWidth - kRight - 6 - 190 * (flat_roofs_++ % 3), Y(roof.level) - 5, "end", roof.label);
    return;
  }
  const double from = std::max(left, low / roof.slope);
  const double to = std::min(right, high / roof.slope);
  if (from >= to) return;
  Line(X(from), Y(from * roof.slope), X(to), Y(to * roof.slope), style);
  Text(X(from) + 8, Y(from * roof.slope) - 8, "start", roof.label);
}

void Chart::DrawPoint(const Point& p) {
  const double x = X(p.intensity), predicted = Y(p.predicted);
  absl::StrAppend(&svg_, "<g><title>", Escape(p.title), "</title>\n");
  if (p.failed) {
    Line(x - 4, predicted - 4, x + 4, predicted + 4, "stroke=\"#c22\"");
    Line(x - 4, predicted + 4, x + 4, predicted - 4, "stroke=\"#c22\"");
  } else {
    absl::StrAppendFormat(&svg_,
                          "<circle class=\"predicted\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\" "
                          "fill=\"none\" stroke=\"#27b\"/>\n",
                          x, predicted);
  }
  if (p.measured > 0) {
    const double y = Y(p.measured), counted = X(p.counted);
    Line(x, predicted, counted, y, "stroke=\"#27b\" stroke-opacity=\"0.4\"");
    absl::StrAppendFormat(
        &svg_, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n",
        p.winner ? "winner" : "measured", counted, y, p.winner ? 7 : 4, p.winner ? "#e80" : "#27b");
  }
  absl::StrAppend(&svg_, "</g>\n");
}

std::string Chart::Draw() {
  FitAxes();
  DrawFrame();
  for (const Roof& roof : roofs_) DrawRoof(roof);
  for (const Point& point : points_) {
    if (!point.winner) DrawPoint(point);
  }
  for (const Point& point : points_) {
    if (point.winner) DrawPoint(point);
  }
  Text(kWidth - kRight, 24, "end", "hollow: predicted, filled: measured, large: winner, x: failed");
  svg_ += "</svg>\n";
  return std::move(svg_);
}

}  // namespace

absl::StatusOr<std::string> RooflineSvg(const client::SweepDetails& details) {
  Chart chart(details);
  if (!chart.ReadPoints()) {
    return absl::FailedPreconditionError(
        "no candidate of the sweep has a prediction to draw; is it still expanding?");
  }
  chart.ReadRoofs();
  return chart.Draw();
}

}  // namespace kiln::tunectl
