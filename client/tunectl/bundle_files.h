// From a fetched bundle to the files that a build links.
#ifndef KILN_CLIENT_TUNECTL_BUNDLE_FILES_H_
#define KILN_CLIENT_TUNECTL_BUNDLE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/kiln_client.h"

namespace kiln::tunectl {

enum class BundleFormat { kShared, kObject, kCubin, kPtx, kBundle };
inline const std::vector<std::string> kBundleFormats = {"so", "obj", "cubin", "ptx", "bundle"};

struct FetchTarget {
  std::string directory = ".";
  BundleFormat format = BundleFormat::kShared;
  std::string base_name;  // of the files; empty = the entry point's name
};

struct FetchedFiles {
  client::Fetched fetched;
  std::vector<std::string> files;
};

// Fetches and writes NAME.so, NAME.h and NAME.json; or NAME.o (NAME.cubin for GPUs), NAME.h and
// NAME.json; or NAME.kilnbundle. NAME.json of a range has the measured table; its GPU code alone is
// NAME.variant0.cubin, NAME.variant0.json and so on, in the order of the steps' variants. Creates
// the folder, and leaves none behind that it has nothing for. Each file appears whole or not at
// all; a download that broke off goes on where it stopped. kFailedPrecondition when the bundle has
// no such form.
absl::StatusOr<FetchedFiles> FetchFiles(client::Client* client, const client::FetchRequest& request,
                                        const FetchTarget& target,
                                        const client::CallOptions& options);

// Whether a folder is there and can be written to, or can be made. Leaves none
// behind, and makes none that others might use too. kFailedPrecondition.
absl::Status CheckFolder(const std::string& directory);

// The folder in which what a sweep of several makes goes: its name, and where the name of another
// of `all` makes the same folder, the first digits of the sweep behind it.
std::string SweepFolder(const client::SweepSpec& spec, const std::string& sweep,
                        const std::vector<client::SweepSpec>& all);

// What fetches this very winner, though its sweep may have run again since.
client::FetchRequest WinnerRequest(const client::Winner& winner);

// The artifact of every candidate that was compiled, each in a folder named after its config; those
// that have been collected since are left out, with a line on standard error.
absl::StatusOr<FetchedFiles> FetchAllConfigs(client::Client* client, const std::string& sweep,
                                             const FetchTarget& target,
                                             const client::CallOptions& options);

// A folder's name for a config: its text with '=' and ',' kept and all else that is unusual in a
// path replaced; cut at 120 bytes with a digest behind it.
std::string ConfigFolder(const std::string& config);

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_BUNDLE_FILES_H_
