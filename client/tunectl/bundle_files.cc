#include "client/tunectl/bundle_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "proto/limits.h"

namespace kiln::tunectl {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 5;  // to make a folder that others remove meanwhile

// What is left of a download that broke off keeps its folder.
void RemoveEmpty(const std::vector<fs::path>& folders) {
  std::error_code ignored;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    fs::remove(*folder, ignored);
  }
}

// Makes the folder, and those around it; the ones that it made, the outermost first. None of them
// is left where it fails. Another process may remove an empty one that both are about to use.
absl::StatusOr<std::vector<fs::path>> MakeFolder(const std::string& directory) {
  std::vector<fs::path> made;
  std::error_code error, ignored;
  fs::path path;
  for (int tries = 0; tries < kMostTries; ++tries) {
    path.clear();
    for (const fs::path& part : fs::path(directory)) {
      path /= part;
      if (fs::create_directory(path, error)) made.push_back(path);
      if (error) break;
    }
    if (!error || fs::is_directory(directory, ignored)) return made;
    if (error != std::errc::no_such_file_or_directory) break;
  }
  RemoveEmpty(made);
  const bool in_the_way = fs::exists(path, ignored) && !fs::is_directory(path, ignored);
  return absl::FailedPreconditionError(
      absl::StrCat("cannot create the folder ", directory, ": ", path.string(),
                   in_the_way ? " is no folder" : absl::StrCat(": ", error.message())));
}

absl::Status WriteWhole(const fs::path& path, const std::string& bytes) {
  const std::string temporary = path.string() + ".tmp";
  std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  std::error_code error;
  if (!stream.fail()) fs::rename(temporary, path, error);
  if (!stream.fail() && !error) return absl::OkStatus();
  const std::string why = error ? error.message() : std::strerror(errno);
  fs::remove(temporary, error);
  return absl::FailedPreconditionError(absl::StrCat("cannot write ", path.string(), ": ", why));
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  if (!stream.is_open() || stream.bad()) {
    return absl::FailedPreconditionError(absl::StrCat("cannot read ", path));
  }
  return bytes.str();
}

// What of the bundle a format hands out, and how its file ends.
struct Form {
  absl::string_view what;
  absl::string_view suffix;
  const std::string* bytes;
};

Form FormOf(const client::Bundle& bundle, BundleFormat format) {
  switch (format) {
    case BundleFormat::kObject:
      return {"object", ".o", &bundle.object};
    case BundleFormat::kCubin:
      return {"cubin", ".cubin", &bundle.cubin};
    case BundleFormat::kPtx:
      return {"PTX", ".ptx", &bundle.assembly};
    default:
      return {"shared object", ".so", &bundle.shared_object};
  }
}

bool IsDeviceCode(BundleFormat format) {
  return format == BundleFormat::kCubin || format == BundleFormat::kPtx;
}

// The manifest, with what was measured where it is of a range.
absl::StatusOr<std::string> ManifestOf(const client::Bundle& bundle, const client::Winner& winner) {
  if (winner.range == nullptr) return bundle.manifest_json;
  nlohmann::json manifest = nlohmann::json::parse(bundle.manifest_json, nullptr, false);
  if (!manifest.is_object()) return absl::DataLossError("the bundle's manifest is no JSON object");
  manifest["measured"] = ToJson(*winner.range);
  return manifest.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::Status CheckForm(const client::Bundle& bundle, BundleFormat format) {
  // The code of a range's configs lies apart, one each.
  const bool apart = !bundle.variants.empty() && IsDeviceCode(format);
  const Form form = FormOf(apart ? bundle.variants.front() : bundle, format);
  if (format != BundleFormat::kBundle && form.bytes->empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the winner for ", bundle.target, " has no ", form.what,
                     "; use another --format, or bundle for all that it has"));
  }
  if (!IsIdentifier(bundle.name)) {
    return absl::DataLossError("the bundle's entry point has no C name");
  }
  return absl::OkStatus();
}

// Turns the downloaded bundle file into the wanted files.
absl::Status Unpack(const std::string& download, const FetchTarget& target, FetchedFiles* result) {
  KILN_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(download));
  KILN_ASSIGN_OR_RETURN(const client::Bundle bundle, client::ParseBundle(bytes));
  KILN_RETURN_IF_ERROR(CheckForm(bundle, target.format));
  const std::string base = target.base_name.empty() ? bundle.name : target.base_name;
  const auto write = [&](const std::string& suffix, const std::string& content) -> absl::Status {
    const fs::path path = fs::path(target.directory) / (base + suffix);
    KILN_RETURN_IF_ERROR(WriteWhole(path, content));
    result->files.push_back(path.string());
    return absl::OkStatus();
  };
  if (target.format == BundleFormat::kBundle) return write(".kilnbundle", bytes);
  KILN_ASSIGN_OR_RETURN(const std::string manifest, ManifestOf(bundle, result->fetched.info));
  if (!IsDeviceCode(target.format)) {
    const Form form = FormOf(bundle, target.format);
    KILN_RETURN_IF_ERROR(write(std::string(form.suffix), *form.bytes));
    // It declares the host's entry point, which a cubin and PTX do not have.
    KILN_RETURN_IF_ERROR(write(".h", bundle.header));
    return write(".json", manifest);
  }
  if (bundle.variants.empty()) {
    const Form form = FormOf(bundle, target.format);
    KILN_RETURN_IF_ERROR(write(std::string(form.suffix), *form.bytes));
    return write(".json", manifest);
  }
  for (size_t i = 0; i < bundle.variants.size(); ++i) {
    const Form form = FormOf(bundle.variants[i], target.format);
    const std::string part = absl::StrCat(".variant", i);
    KILN_RETURN_IF_ERROR(write(absl::StrCat(part, form.suffix), *form.bytes));
    KILN_RETURN_IF_ERROR(write(part + ".json", bundle.variants[i].manifest_json));
  }
  return write(".json", manifest);
}

// The target's folder is there.
absl::StatusOr<FetchedFiles> FetchInto(client::Client* client, const client::FetchRequest& request,
                                       const FetchTarget& target,
                                       const client::CallOptions& options) {
  const std::string key =
      Sha256Hex(absl::StrCat(request.sweep, "\n", request.config, "\n", request.winner_key));
  const std::string download =
      (fs::path(target.directory) / absl::StrCat(".kiln-", key.substr(0, 16))).string();
  FetchedFiles result;
  KILN_ASSIGN_OR_RETURN(result.fetched, client->FetchToFile(request, download, options));
  const absl::Status unpacked = Unpack(download, target, &result);
  std::error_code error;
  fs::remove(download, error);
  KILN_RETURN_IF_ERROR(unpacked);
  return result;
}

}  // namespace

std::string ConfigFolder(const std::string& config) {
  if (config.empty()) return "default";
  std::string name;
  for (const char c : config) {
    name += absl::ascii_isalnum(c) || c == '=' || c == ',' || c == '_' || c == '-' ? c : '_';
  }
  if (name.size() <= 120) return name;
  return absl::StrCat(name.substr(0, 107), "-", Sha256Hex(config).substr(0, 12));
}

absl::StatusOr<FetchedFiles> FetchFiles(client::Client* client, const client::FetchRequest& request,
                                        const FetchTarget& target,
                                        const client::CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const std::vector<fs::path> made, MakeFolder(target.directory));
  absl::StatusOr<FetchedFiles> files = FetchInto(client, request, target, options);
  if (!files.ok()) RemoveEmpty(made);
  return files;
}

client::FetchRequest WinnerRequest(const client::Winner& winner) {
  // A record of an older program has no name of its own.
  return {winner.sweep, "", winner.winner_key};
}

absl::StatusOr<FetchedFiles> FetchAllConfigs(client::Client* client, const std::string& sweep,
                                             const FetchTarget& target,
                                             const client::CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const client::SweepDetails details, client->Show(sweep, true, options));
  FetchedFiles all;
  for (const client::Candidate& candidate : details.candidates) {
    if (candidate.artifact.digest.empty()) continue;
    FetchTarget one = target;
    one.directory = (fs::path(target.directory) / ConfigFolder(candidate.config)).string();
    const absl::StatusOr<FetchedFiles> files =
        FetchFiles(client, {sweep, candidate.config}, one, options);
    if (absl::IsNotFound(files.status())) {
      std::fprintf(stderr, "tunectl: left out: %s\n",
                   std::string(files.status().message()).c_str());
      continue;
    }
    KILN_RETURN_IF_ERROR(files.status());
    all.fetched = files->fetched;
    all.files.insert(all.files.end(), files->files.begin(), files->files.end());
  }
  if (!all.files.empty()) return all;
  return absl::NotFoundError(absl::StrCat("sweep ", sweep, " has no artifact to fetch"));
}

absl::Status CheckFolder(const std::string& directory) {
  fs::path there = fs::absolute(directory).lexically_normal();
  std::error_code ignored;
  while (!fs::exists(there, ignored) && !fs::is_symlink(there, ignored) &&
         there != there.parent_path()) {
    there = there.parent_path();
  }
  const auto bad = [&](const std::string& why) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write to the folder ", directory, ": ", why));
  };
  if (!fs::is_directory(there, ignored)) return bad(absl::StrCat(there.string(), " is no folder"));
  // What may be written to is not told by permissions alone: a folder of a name that nobody else
  // has.
  std::string probe = (there / ".kiln-XXXXXX").string();
  const bool made = access(there.c_str(), R_OK) == 0 && mkdtemp(probe.data()) != nullptr;
  if (!made) return bad(absl::StrCat(there.string(), ": ", std::strerror(errno)));
  fs::remove(probe, ignored);
  return absl::OkStatus();
}

std::string SweepFolder(const client::SweepSpec& spec, const std::string& sweep,
                        const std::vector<client::SweepSpec>& all) {
  const std::string folder = ConfigFolder(spec.name);
  const auto same = std::count_if(all.begin(), all.end(), [&](const client::SweepSpec& other) {
    return ConfigFolder(other.name) == folder;
  });
  return same < 2 ? folder : absl::StrCat(folder, "-", ShortSweep(sweep));
}

}  // namespace kiln::tunectl
