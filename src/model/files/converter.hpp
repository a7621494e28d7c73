#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/model/exchange/change_base.hpp"
#include "src/model/exchange/folder_format.hpp"
#include "src/model/exchange/sparse_change.hpp"
#include "src/model/file_watch.hpp"

namespace sparcl::model {

constexpr const char* kOwnFormat = "sparcl";

struct LayoutName {
  const char* name;
  const char* summary;
};
std::vector<LayoutName> convert_layouts();  // our own first

struct ConvertOptions {
  std::string input;   // a file, or a folder of another program's files
  std::string output;  // a file, or a new folder if the layout takes several files
  std::string from;    // a name of convert_layouts(), or empty: as the file looks
  std::string to;      // one of them
  // The checkpoint that the change is for: needed from and to our own deltas, and from and to the
  // folder layouts.
  std::string base;
};

// Whether it holds changes in one of the layouts of other programs that are folders of whole
// tensors, and no complete state.
bool is_change_folder(const std::string& path);
// The change of another program in this folder or file, for `base`. Its tensors are matched with
// the base's.
Result<SparseChange> read_change(const std::string& path, const ChangeBase& base,
                                 const FileWatch& watch = {});

// Writes a change as a new folder in a folder layout, completely or not at all. Returns what was
// written. match_schema() has passed.
Result<FolderWrite> write_change_folder(const std::string& path, const FolderFormat& format,
                                        const SparseChange& change, const ChangeBase& base);

struct ConvertReport {
  std::string from;
  std::uint64_t tensors = 0;
  std::uint64_t changed = 0;
  std::uint64_t input_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t files = 1;
  std::uint64_t unchanged = 0;  // values in another program's file that are the base's already
};

// Writes the change in `input` in another layout, completely or not at all. Refusals: Corrupt,
// Mismatch, WrongBase; Unsupported if the layout cannot express the change.
Result<ConvertReport> convert_change(const ConvertOptions& options, const FileWatch& watch = {});

}  // namespace sparcl::model
