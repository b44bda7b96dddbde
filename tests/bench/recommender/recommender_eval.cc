// Judges the recommender against measured times: recommender_eval [-v] TIMES.csv [ARCH.txt]
//
// TIMES.csv has lines "shape,config,ns" (config in canonical text, quoted or not; lines that start
// with '#' are comments), as recommender_measure writes them. The recommender sees the measured
// configs as a space given outright, without the times, and answers with a slate of 8. One line a
// shape: configs, top-1 and best-of-top-8 as a share of the best measured time, Spearman's rank
// correlation over all configs, median and range of prediction / measurement; -v lists every
// config.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "compiler/roofline/recommend.h"
#include "compiler/target/host_arch.h"
#include "tests/bench/recommender/recommender_shapes.h"

namespace kiln::bench {
namespace {

using Times = std::map<std::string, std::map<std::string, double>>;  // shape -> config -> ns

Times ReadTimes(const char* path) {
  Times out;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    const size_t first = line.find(','), last = line.rfind(',');
    double ns = 0;
    if (first == std::string::npos || first == last ||
        !absl::SimpleAtod(line.substr(last + 1), &ns)) {
      std::fprintf(stderr, "skipped: %s\n", line.c_str());
      continue;
    }
    std::string config = line.substr(first + 1, last - first - 1);
    config.erase(std::remove(config.begin(), config.end(), '"'), config.end());
    out[line.substr(0, first)][config] = ns;
  }
  return out;
}

std::vector<double> Ranks(const std::vector<double>& v) {
  std::vector<size_t> order(v.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] < v[b]; });
  std::vector<double> ranks(v.size());
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    while (j < order.size() && v[order[j]] == v[order[i]]) ++j;
    for (size_t k = i; k < j; ++k) ranks[order[k]] = 0.5 * static_cast<double>(i + j - 1);
    i = j;
  }
  return ranks;
}

double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const auto x = Ranks(a), y = Ranks(b);
  const double mean = 0.5 * (static_cast<double>(x.size()) - 1);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

struct Verdict {
  double top1 = 0, top8 = 0;
};

Verdict Compare(const JudgedShape& shape, const std::map<std::string, double>& times,
                const target::Arch& arch, bool verbose) {
  std::vector<Config> configs;
  for (const auto& [config, ns] : times) configs.push_back(*Config::Parse(config));
  const auto answer = Judge(shape, configs, arch);
  if (!answer.ok()) {
    std::printf("%-14s %s\n", shape.name.c_str(), answer.status().ToString().c_str());
    return {};
  }
  double best = INFINITY;
  std::string best_config;
  for (const auto& [config, ns] : times) {
    if (ns < best) best_config = config;
    best = std::min(best, ns);
  }
  Verdict v;
  double slate = INFINITY;
  for (size_t i = 0; i < answer->ranked.size() && i < 8; ++i) {
    slate = std::min(slate, times.at(answer->ranked[i].config.ToString()));
  }
  const std::string top = answer->ranked[0].config.ToString();
  v.top1 = best / times.at(top);
  v.top8 = best / slate;
  std::vector<double> predicted, measured, ratio;
  for (int64_t r = 0; r < answer->space->legal(); ++r) {
    predicted.push_back(answer->space->PredictedAt(r));
    measured.push_back(times.at(answer->space->ConfigAt(r).ToString()));
    ratio.push_back(predicted.back() / measured.back());
    if (!verbose) continue;
    const roofline::Hint h = answer->space->HintAt(r);
    std::printf("  %5.2f  predicted %9.3f measured %9.3f ms  %s  busy: %s\n", ratio.back(),
                predicted.back() / 1e6, measured.back() / 1e6, h.config.ToString().c_str(),
                h.fields.at("busy").c_str());
  }
  std::sort(ratio.begin(), ratio.end());
  const int64_t rank = answer->space->RankOf(*Config::Parse(best_config));
  std::printf(
      "%-14s %5zu configs  top1 %.3f  top8 %.3f  spearman %.3f  predicted/measured median "
      "%.2f range %.2f..%.2f  best %.3f ms %s (predicted rank %ld)  top1 %s\n",
      shape.name.c_str(), times.size(), v.top1, v.top8, Spearman(predicted, measured),
      ratio[ratio.size() / 2], ratio.front(), ratio.back(), best / 1e6, best_config.c_str(),
      static_cast<long>(rank), top.c_str());
  return v;
}

int Main(int argc, char** argv) {
  const bool verbose = argc > 1 && std::string(argv[1]) == "-v";
  if (verbose) {
    ++argv;
    --argc;
  }
  if (argc < 2) {
    std::fprintf(stderr, "usage: recommender_eval [-v] TIMES.csv [ARCH.txt]\n");
    return 2;
  }
  target::Arch arch;
  if (argc > 2) {
    std::ifstream in(argv[2]);
    std::stringstream text;
    text << in.rdbuf();
    auto parsed = target::ParseArch(text.str());
    if (!parsed.ok()) {
      std::fprintf(stderr, "%s\n", parsed.status().ToString().c_str());
      return 2;
    }
    arch = *std::move(parsed);
  } else {
    arch = *target::HostArch("");
  }
  const Times times = ReadTimes(argv[1]);
  double log1 = 0, log8 = 0, worst = 1;
  int shapes = 0;
  for (const JudgedShape& shape : JudgedShapes()) {
    const auto it = times.find(shape.name);
    if (it == times.end()) continue;
    const Verdict v = Compare(shape, it->second, arch, verbose);
    if (v.top8 <= 0) return 1;
    log1 += std::log(v.top1);
    log8 += std::log(v.top8);
    worst = std::min(worst, v.top1);
    ++shapes;
  }
  if (shapes == 0) return 1;
  const double top1 = std::exp(log1 / shapes), top8 = std::exp(log8 / shapes);
  std::printf(
      "recommender_top8_geomean %.4f bar 0.95\nrecommender_top1_geomean %.4f bar 0.85\n"
      "recommender_top1_worst %.4f bar 0.60\n",
      top8, top1, worst);
  return top8 >= 0.95 && top1 >= 0.85 && worst >= 0.6 ? 0 : 1;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
