# Precompiled headers: what nearly every file of a kind parses. A folder says `set(KILN_PCH proto)`
# when its files speak protobuf; the default is `base`; whoever links CLI11 gets `cli`; tests get the
# same with GoogleTest. Files still include what they use: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON (as
# in no_cuda) checks it.
# No gRPC here: its headers have static objects, which would tie whoever sees them to the library.
set(base <algorithm> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set>
  <sstream> <string> <thread> <unordered_map> <unordered_set> <utility> <variant> <vector>
  [["absl/status/statusor.h"]] [["absl/strings/match.h"]] [["absl/strings/numbers.h"]]
  [["absl/strings/str_cat.h"]] [["absl/strings/str_format.h"]] [["absl/strings/str_join.h"]]
  [["absl/strings/str_split.h"]])
set(proto [["kiln/v1/child.pb.h"]] [["kiln/v1/store.pb.h"]] [["kiln/v1/tuning.pb.h"]]
  [["kiln/v1/work.pb.h"]])
set(cli <CLI/CLI.hpp> <nlohmann/json.hpp>)
set(test <gtest/gtest.h> <gmock/gmock.h>)

# kiln_pch(NAME headers...; needs...): a library that owns one set.
function(kiln_pch name headers needs)
  add_library(kiln_pch_${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/deploy/cmake/pch.cc)
  target_precompile_headers(kiln_pch_${name} PRIVATE ${headers})
  target_link_libraries(kiln_pch_${name} PRIVATE absl::statusor absl::strings ${needs})
  if(name STREQUAL test_property)
    target_compile_options(kiln_pch_${name} PRIVATE ${KILN_PROPERTY_OPTIONS})
  elseif(name MATCHES "^test_")
    target_compile_options(kiln_pch_${name} PRIVATE ${KILN_TEST_OPTIONS})
  elseif(name STREQUAL cli)
    target_compile_options(kiln_pch_${name} PRIVATE ${KILN_CLI_OPTIONS})
  endif()
endfunction()

kiln_pch(base "${base}" "")
kiln_pch(proto "${base};${proto}" kiln_proto)
kiln_pch(cli "${base};${cli}" "CLI11::CLI11;nlohmann_json::nlohmann_json")
kiln_pch(test_base "${base};${test}" "GTest::gmock;GTest::gtest")
kiln_pch(test_proto "${base};${proto};${test}" "kiln_proto;GTest::gmock;GTest::gtest")
kiln_pch(test_property "${base};${test}" "GTest::gmock;GTest::gtest")
