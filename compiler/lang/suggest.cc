#include "compiler/lang/suggest.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::lang {
namespace {

constexpr size_t kMaxLength = 64;

// Edit distance with transpositions of neighbours; case differences cost nothing but a tie-break.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

// What neighbouring languages call the same, and short forms: no edit leads from one to the other.
constexpr const char* kSynonyms[][2] = {{"load", "copy"},
                                        {"store", "copy"},
                                        {"where", "if_then_else"},
                                        {"fp16", "float16"},
                                        {"half", "float16"},
                                        {"bf16", "bfloat16"},
                                        {"fp32", "float32"},
                                        {"fp64", "float64"},
                                        {"fp8", "float8_e4m3fn"},
                                        {"i32", "int32"},
                                        {"i64", "int64"},
                                        {"u8", "uint8"},
                                        {"cdiv", "ceildiv"},
                                        {"div_up", "ceildiv"},
                                        {"program_id", "Kernel"},
                                        {"dot", "gemm"},
                                        {"matmul", "gemm"},
                                        {"mma", "gemm"},
                                        {"zeros", "clear"},
                                        {"zero", "clear"},
                                        {"syncthreads", "sync_threads"},
                                        {"maximum", "max"},
                                        {"minimum", "min"},
                                        {"threadIdx", "get_thread_binding"},
                                        {"register", "alloc_fragment"}};

// Lower case, cut at underscores and where a capital follows a small letter.
std::vector<std::string> Words(absl::string_view name) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < name.size(); ++i) {
    const bool capital = i > 0 && absl::ascii_isupper(name[i]) && absl::ascii_islower(name[i - 1]);
    if ((name[i] == '_' || capital) && !words.back().empty()) words.emplace_back();
    if (name[i] != '_') words.back() += absl::ascii_tolower(name[i]);
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// Whether each of `some` begins a word of `all`, no word twice.
bool AllWithin(const std::vector<std::string>& some, std::vector<std::string> all) {
  for (const std::string& word : some) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const std::string& other) {
      return absl::StartsWith(other, word);
    });
    if (found == all.end()) return false;
    all.erase(found);
  }
  return true;
}

// The shortest candidate with all words of the name, in any order and any of them cut short; else
// the longest of several words that are all in the name.
const std::string* ByWords(absl::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() < 3) return nullptr;
  const std::vector<std::string> asked = Words(name);
  const std::string *longer = nullptr, *shorter = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxLength || candidate == name) continue;
    const std::vector<std::string> words = Words(candidate);
    if (AllWithin(asked, words)) {
      if (longer == nullptr || candidate.size() < longer->size()) longer = &candidate;
    } else if (words.size() > 1 && AllWithin(words, asked)) {
      if (shorter == nullptr || candidate.size() > shorter->size()) shorter = &candidate;
    }
  }
  return longer != nullptr ? longer : shorter;
}

// A value such as a parameter of this name takes, as far as names tell.
const char* ExampleOf(absl::string_view name) {
  if (absl::StrContains(name, "dtype") || absl::EndsWith(name, "_type")) return "float16";
  for (const absl::string_view flag : {"is_", "use_", "with_", "has_", "trans", "causal"}) {
    if (absl::StartsWith(name, flag)) return "True";
  }
  return "1024";
}

}  // namespace

std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > kMaxLength) return "";
  for (const auto& [other, usual] : kSynonyms) {
    if (name != other) continue;
    if (std::find(candidates.begin(), candidates.end(), usual) != candidates.end()) return usual;
  }
  // Of one letter, any other would be as near: only its other case is.
  const size_t allowed = name.size() < 2 ? 0 : std::max<size_t>(1, name.size() / 3);
  size_t best = allowed + 1;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxLength || candidate == name) continue;
    const size_t gap = candidate.size() > name.size() ? candidate.size() - name.size()
                                                      : name.size() - candidate.size();
    if (gap > allowed) continue;
    const size_t distance = Distance(name, candidate);
    if (distance < best || (distance == best && nearest != nullptr && candidate < *nearest)) {
      best = distance;
      nearest = &candidate;
    }
  }
  if (nearest == nullptr) nearest = ByWords(name, candidates);
  return nearest == nullptr ? "" : *nearest;
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates,
                       absl::string_view otherwise) {
  const std::string nearest = Nearest(name, candidates);
  if (nearest.empty()) return std::string(otherwise);
  return absl::StrCat("did you mean '", nearest, "'?");
}

std::string GiveArguments(const std::vector<std::string>& missing) {
  const auto option = [](std::string* out, const std::string& name) {
    absl::StrAppend(out, "-a ", name, "=", ExampleOf(name));
  };
  return absl::StrCat("give ", missing.size() > 1 ? "each" : "it",
                      " as an argument (kilnc: ", absl::StrJoin(missing, " ", option),
                      "; a sweep file: under shapes, or under tunables), or a default");
}

std::string GiveSize(absl::string_view name) {
  size_t end = name.find("_shape_");
  if (end == absl::string_view::npos) end = name.find("_stride_");
  if (end == absl::string_view::npos) {
    return absl::StrCat("give it as an argument (kilnc: -a ", name, "=1024)");
  }
  return absl::StrCat("give the tensor by its shape and type (kilnc: -a '", name.substr(0, end),
                      "=T.Tensor((1024, 512), T.float16)'), or the size (-a ", name, "=1024)");
}

}  // namespace kiln::lang
