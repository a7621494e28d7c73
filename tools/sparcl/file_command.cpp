#include "tools/sparcl/file_command.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {
namespace {

// Longer ones first.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kFlags{{
    {"options.only and options.selection",
     "--threshold, --largest, --budget, --grid, --only and --values"},
    {"options.selection->values", "--values"},
    {"options.selection->select", "--threshold, --largest, --budget and --grid"},
    {"options.side_files = sparclFileSideFilesOmit", "--no-side-files"},
    {"options.only", "--only"},
    {"as `base`", "by --base"},
}};

std::string with_flags(std::string text) {
  for (const auto& [field, flag] : kFlags) {
    for (std::size_t at = text.find(field); at != std::string::npos;
         at = text.find(field, at + flag.size()))
      text.replace(at, field.size(), flag);
  }
  return text;
}

}  // namespace

Status FileCommand::status(const char* function, sparclResult_t result) {
  if (result == sparclSuccess) return {};
  std::string text = sparclGetLastError(nullptr);
  const std::string prefix = std::string(function) + ": ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return Status(static_cast<Code>(result), with_flags(std::move(text)));
}

std::vector<std::string> FileCommand::names_in(const std::string& folder) {
  std::vector<std::string> stripped;
  for (const std::string& path : names(sparclFileNotInIndex))
    stripped.push_back(path.substr(folder.size() + 1));
  return stripped;
}

void FileCommand::warn() { warn_of_strays(names(sparclFileNotInIndex)); }

sparclResult_t FileCommand::on_progress(std::uint64_t done_bytes, std::uint64_t total_bytes,
                                        void* arg) {
  static_cast<FileCommand*>(arg)->progress_.update(done_bytes, total_bytes);
  return sparclSuccess;
}

void FileCommand::on_note(sparclFileNoteKind_t kind, const char* name, void* arg) {
  static_cast<FileCommand*>(arg)->names_[kind].emplace_back(name);
}

}  // namespace sparcl::tool
