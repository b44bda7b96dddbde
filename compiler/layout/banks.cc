#include "compiler/layout/banks.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxLen = 5;
constexpr int kMaxAtom = 7;
constexpr int kMaxPadBytes = 16;

// Per phase, the largest number of distinct words that one bank serves.
std::vector<int> PhaseDegrees(absl::Span<const int64_t> addresses, int bytes_per_lane) {
  KILN_CHECK(addresses.size() <= kWarp);
  KILN_CHECK(bytes_per_lane <= 16 && IsPowerOfTwo(bytes_per_lane));
  const size_t lanes = bytes_per_lane <= 4 ? 32 : bytes_per_lane == 8 ? 16 : 8;
  std::vector<int> degrees;
  std::vector<int64_t> words;
  for (size_t start = 0; start < addresses.size(); start += lanes) {
    words.clear();
    for (size_t i = start; i < std::min(start + lanes, addresses.size()); ++i) {
      if (addresses[i] == kInactive) continue;
      const int64_t last = FloorDiv(addresses[i] + bytes_per_lane - 1, kBankBytes);
      for (int64_t w = FloorDiv(addresses[i], kBankBytes); w <= last; ++w) words.push_back(w);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int count[kBanks] = {};
    int degree = 0;
    for (const int64_t w : words) degree = std::max(degree, ++count[FloorMod(w, kBanks)]);
    degrees.push_back(degree);
  }
  return degrees;
}

int64_t AddressOf(int64_t element, int64_t columns, const SharedPlan& plan) {
  return plan.swizzle(element / columns * plan.pitch + element % columns);
}

bool Aligned(absl::Span<const Request> requests, int64_t columns, const SharedPlan& plan) {
  for (const Request& r : requests) {
    for (const int64_t e : r.elements) {
      if (e != kInactive && AddressOf(e, columns, plan) % r.elements_per_lane != 0) return false;
    }
  }
  return true;
}

}  // namespace

int Wavefronts(absl::Span<const int64_t> byte_addresses, int bytes_per_lane) {
  int sum = 0;
  for (const int degree : PhaseDegrees(byte_addresses, bytes_per_lane)) sum += degree;
  return sum;
}

int ConflictDegree(absl::Span<const int64_t> byte_addresses, int bytes_per_lane) {
  const std::vector<int> degrees = PhaseDegrees(byte_addresses, bytes_per_lane);
  return degrees.empty() ? 0 : *std::max_element(degrees.begin(), degrees.end());
}

int64_t Cost(absl::Span<const Request> requests, int64_t columns, const SharedPlan& plan,
             int element_bytes) {
  int64_t sum = 0;
  std::vector<int64_t> bytes;
  for (const Request& r : requests) {
    bytes.clear();
    for (const int64_t e : r.elements) {
      bytes.push_back(e == kInactive ? kInactive : AddressOf(e, columns, plan) * element_bytes);
    }
    sum += Wavefronts(bytes, r.elements_per_lane * element_bytes);
  }
  return sum;
}

namespace {

// The worst conflict over all steps when lanes permute their registers with k bits.
int StepDegree(const Layout& places, int64_t registers, int k, int element_bytes) {
  int degree = 0;
  for (int64_t r = 0; r < registers; ++r) {
    std::vector<int64_t> bytes;
    for (int64_t lane = 0; lane < kWarp; ++lane) {
      const int64_t turned = r ^ ((lane >> (5 - k)) & ((int64_t{1} << k) - 1));
      bytes.push_back(places.Base(turned * kWarp + lane)[Axis::kM] * element_bytes);
    }
    degree = std::max(degree, ConflictDegree(bytes, element_bytes));
  }
  return degree;
}

}  // namespace

absl::StatusOr<int> WarpXorSwizzle(const Layout& source, const Layout& target, int element_bytes) {
  const int64_t registers = source.size() / kWarp;
  if (source.size() != target.size() || source.size() % kWarp != 0 || !IsPowerOfTwo(registers) ||
      registers > 256) {
    return BadArgument("a warp permute has (registers, 32) elements, registers a power of two");
  }
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) {
    return BadArgument(absl::StrCat("a warp permute moves 4, 8 or 16 bytes, not ", element_bytes));
  }
  for (int k = 0; k <= std::min(5, Log2(registers)); ++k) {
    if (StepDegree(source, registers, k, element_bytes) == 1 &&
        StepDegree(target, registers, k, element_bytes) == 1) {
      return k;
    }
  }
  return Refuse({absl::StrCat("every exchange of register bits leaves a conflict of degree ",
                              StepDegree(target, registers, 0, element_bytes)),
                 0, -1, source.Base(0), target.Base(0)});
}

SharedPlan BestShared(absl::Span<const Request> stores, absl::Span<const Request> loads,
                      int64_t columns, int element_bytes, bool allow_padding) {
  int widest = 1;
  for (const Request& r : stores) widest = std::max(widest, r.elements_per_lane);
  for (const Request& r : loads) widest = std::max(widest, r.elements_per_lane);
  std::vector<SharedPlan> candidates = {{SwizzleLayout{}, columns, 0, 0}};
  for (int len = 1; len <= kMaxLen; ++len) {
    for (int atom = len; atom <= kMaxAtom; ++atom) {
      candidates.push_back({SwizzleLayout{Log2(widest), len, atom}, columns, 0, 0});
    }
  }
  for (int pad = kBankBytes; allow_padding && pad <= kMaxPadBytes; pad += kBankBytes) {
    if (pad % element_bytes == 0) candidates.push_back({{}, columns + pad / element_bytes, 0, 0});
  }
  SharedPlan best;
  const auto key = [](const SharedPlan& p) {
    return std::make_tuple(p.store_wavefronts + p.load_wavefronts, p.pitch, p.swizzle.swizzle_len,
                           p.swizzle.atom_len);
  };
  bool first = true;
  for (SharedPlan& plan : candidates) {
    if (!Aligned(stores, columns, plan) || !Aligned(loads, columns, plan)) continue;
    plan.store_wavefronts = Cost(stores, columns, plan, element_bytes);
    plan.load_wavefronts = Cost(loads, columns, plan, element_bytes);
    if (first || key(plan) < key(best)) best = plan;
    first = false;
  }
  return first ? candidates[0] : best;
}

}  // namespace kiln::layout
