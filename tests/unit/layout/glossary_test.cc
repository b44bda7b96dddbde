// Every glossary row of a README names a symbol that its header has, and every term of the notation
// and of layout inference has a row.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace kiln::layout {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The terms of `folder`'s glossary, as ", a, b,"; each row's symbol must be in its header.
std::string Terms(const std::string& folder, int at_least) {
  const std::string readme = Read(folder + "README.md");
  const std::regex row("\\| ([^|]+) \\| `(\\w+)` in `(\\w+\\.h)` \\|");
  std::string terms = ",";
  int rows = 0;
  for (std::sregex_iterator it(readme.begin(), readme.end(), row), end; it != end; ++it, ++rows) {
    const std::string header = Read(folder + (*it)[3].str());
    EXPECT_FALSE(header.empty()) << (*it)[3];
    EXPECT_TRUE(std::regex_search(header, std::regex("\\b" + (*it)[2].str() + "\\b")))
        << (*it)[2] << " is not in " << (*it)[3];
    terms += " " + (*it)[1].str() + ",";
  }
  EXPECT_GE(rows, at_least) << folder;
  return terms;
}

TEST(Glossary, OfLayoutInferenceLinksToSymbolsThatExist) {
  const std::string terms = Terms("compiler/passes/", 15);
  for (const char* term :
       {"layout inference", "fragment", "fragment buffer", "floating fragment buffer",
        "forward_thread", "loop_layout", "buffer_layout", "thread_bounds", "access index",
        "constant index", "strict", "common", "free", "source buffer", "vectorization width",
        "timeline"}) {
    EXPECT_NE(terms.find(std::string(" ") + term + ","), std::string::npos) << term;
  }
}

TEST(Glossary, LinksToSymbolsThatExist) {
  const std::string terms = Terms("compiler/layout/", 60);
  for (const char* term : {"TileLayout",
                           "SwizzleLayout",
                           "ComposeLayout",
                           "S",
                           "R",
                           "shard",
                           "replica",
                           "offset",
                           "iter",
                           "extent",
                           "stride",
                           "axis",
                           "bx",
                           "by",
                           "bz",
                           "cbx",
                           "cby",
                           "cbz",
                           "tx",
                           "warpid",
                           "laneid",
                           "wgid",
                           "tid_in_wg",
                           "wid_in_wg",
                           "m",
                           "P",
                           "F",
                           "Bank",
                           "TLane",
                           "TCol",
                           "from_iters",
                           "apply",
                           "coordinate dictionary",
                           "flatten",
                           "split",
                           "per_element",
                           "swizzle_len",
                           "atom_len",
                           "swizzle mode",
                           "bank of an element",
                           "line",
                           "bank conflict",
                           "tensor core register tile",
                           "wg_local_layout",
                           "TMEM",
                           "tmem_datapath_layout",
                           "tcgen05_atom_layout",
                           "scale factor layout",
                           "warpx4 broadcast",
                           "replication",
                           "forward_index",
                           "replicate",
                           "rep",
                           "ThreadExtent()",
                           "fully replicated",
                           "loop partition"}) {
    EXPECT_NE(terms.find(std::string(" ") + term + ","), std::string::npos) << term;
  }
}

}  // namespace
}  // namespace kiln::layout
