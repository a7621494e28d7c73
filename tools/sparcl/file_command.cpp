#include "tools/sparcl/file_command.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {
namespace {

// How a message of the library begins and ends, and with flags: paths and names in it stay.
struct Wording {
  std::string_view begin, end, begin_with_flags, end_with_flags;
};
constexpr std::string_view kNoTensor = "' names no tensor; `sparcl inspect` lists them";
constexpr std::string_view kAskForExact = "ask for exact values";
constexpr std::array kWordings{
    Wording{"options.only '", kNoTensor, "--only '", kNoTensor},
    Wording{"options.selection->values: ", kAskForExact, "--values: ", kAskForExact},
    Wording{"", "without options.only and options.selection first", "",
            "without --threshold, --largest, --budget, --grid, --only and --values first"},
    Wording{"", "choose other tensors by options.only, or leave out options.selection->select", "",
            "choose other tensors by --only, or leave out --threshold, --largest, --budget and "
            "--grid"},
    Wording{"", "; options.side_files = sparclFileSideFilesOmit leaves the files out", "",
            "; --no-side-files leaves the files out"},
    Wording{"", ": leave options.selection and options.only out, or options.with_identities", "",
            ": leave --threshold, --largest, --budget, --grid, --only and --values out, or "
            "--identities"},
    Wording{"", ": give it as `base`", "", ": give it by --base"},
    Wording{"", ": give the checkpoint as `base`", "", ": give the checkpoint by --base"},
};

std::string with_flags(std::string text) {
  const auto* const found = std::ranges::find_if(kWordings, [&](const Wording& each) {
    return text.starts_with(each.begin) && text.ends_with(each.end);
  });
  if (found == kWordings.end()) return text;
  text.replace(text.size() - found->end.size(), found->end.size(), found->end_with_flags);
  return text.replace(0, found->begin.size(), found->begin_with_flags);
}

std::string_view folder_of(std::string_view path) { return path.substr(0, path.rfind('/')); }

// The library writes NUL in a tensor's name as C0 80.
std::string with_nul(std::string name) {
  for (std::size_t at = 0; (at = name.find("\xc0\x80", at)) != std::string::npos; ++at)
    name.replace(at, 2, 1, '\0');
  return name;
}

}  // namespace

Status FileCommand::status(const char* function, sparclResult_t result) {
  constexpr std::string_view kThrown = "a call could not be made: ";
  progress_.clear();
  if (result == sparclSuccess) return {};
  std::string text = sparclGetLastError(nullptr);
  const std::string prefix = std::string(function) + ": ";
  if (text.starts_with(prefix)) {
    text.erase(0, prefix.size());
  } else if (result == sparclOutOfMemory) {
    throw std::bad_alloc();  // as the call did: main() says it
  } else if (text.starts_with(kThrown)) {
    text.erase(0, kThrown.size());
  }
  return Status(static_cast<Code>(result), with_flags(std::move(text)));
}

std::vector<std::string> FileCommand::names_in(const std::string& folder) {
  std::vector<std::string> stripped;
  for (const std::string& path : names(sparclFileNotInIndex))
    stripped.push_back(path.substr(folder.size() + 1));
  return stripped;
}

void FileCommand::warn() {
  progress_.clear();
  std::vector<std::string> of_one;  // those of one checkpoint are sorted
  for (const std::string& path : names(sparclFileNotInIndex)) {
    if (!of_one.empty() && (folder_of(path) != folder_of(of_one.back()) || path <= of_one.back()))
      warn_of_strays(std::exchange(of_one, {}));
    of_one.push_back(path);
  }
  warn_of_strays(of_one);
}

sparclResult_t FileCommand::on_progress(std::uint64_t done_bytes, std::uint64_t total_bytes,
                                        void* arg) {
  static_cast<FileCommand*>(arg)->progress_.update(done_bytes, total_bytes);
  return sparclSuccess;
}

void FileCommand::on_note(sparclFileNoteKind_t kind, const char* name, void* arg) {
  const bool is_tensor = kind <= sparclFileTensorReplaced;
  static_cast<FileCommand*>(arg)->names_[kind].push_back(is_tensor ? with_nul(name) : name);
}

}  // namespace sparcl::tool
