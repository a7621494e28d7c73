#include "tools/sparcl/version_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "src/base/folder_list.hpp"
#include "src/model/files/converter.hpp"

namespace sparcl::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDigits = "0123456789", kWeightPrefix = "weight_v";
constexpr const char *kIndex = "model.safetensors.index.json", *kStable = "STABLE",
                     *kManifest = "manifest.json";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool has(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::is_regular_file(folder / name, error);
}

// "NAME" and digits, and nothing else.
bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         name.find_first_not_of(kDigits, prefix.size()) == name.npos;
}

std::optional<VersionFolder> marked(const fs::path& folder, const char* marker, bool is_change) {
  if (!has(folder, marker)) return {};
  return VersionFolder{(folder / marker).string(), folder.string(), is_change};
}

// READY or READY-N; the tensors lie in FULL, or are lists of changes beside the marker.
std::optional<VersionFolder> find_grail(const fs::path& folder) {
  const Result<std::vector<std::string>> names = names_in_folder(folder.string());
  if (!names.ok()) return {};
  for (const std::string& name : *names) {
    if (name != "READY" && !is_numbered(name, "READY-")) continue;
    std::error_code error;
    const bool is_full = fs::is_directory(folder / "FULL", error);
    return VersionFolder{(folder / name).string(), (is_full ? folder / "FULL" : folder).string(),
                         !is_full};
  }
  return {};
}

std::optional<VersionFolder> find_hugging_face(const fs::path& folder) {
  for (const char* marker : {kIndex, "trainer_state.json"}) {
    if (has(folder, marker))
      return marked(folder, marker, model::is_change_folder(folder.string()));
  }
  if (!has(folder, "config.json")) return {};
  return marked(folder, "model.safetensors", model::is_change_folder(folder.string()));
}

}  // namespace

std::optional<VersionFolder> find_version_folder(const std::string& path) {
  const fs::path folder(path);
  const std::string name = folder.filename().string();
  if (is_numbered(name, "step_")) return marked(folder, kStable, false);
  if (is_numbered(name, "delta-")) return marked(folder, kManifest, true);
  if (is_numbered(name, kWeightPrefix) && has(folder, "DONE")) return marked(folder, "DONE", true);
  if (is_numbered(name, "checkpoint-")) {
    if (std::optional<VersionFolder> found = find_grail(folder)) return found;
  }
  return find_hugging_face(folder);
}

std::string_view awaited_marker(const std::string& path) {
  const fs::path folder(path);
  const std::string name = folder.filename().string();
  const char* const marker = is_numbered(name, "step_")    ? kStable
                             : is_numbered(name, "delta-") ? kManifest
                                                           : nullptr;
  if (marker == nullptr || has(folder, marker)) return {};
  const bool has_model =
      has(folder, kIndex) || (has(folder, "config.json") && has(folder, "model.safetensors"));
  return has_model ? marker : std::string_view();
}

std::string weight_folder_name(std::uint64_t version) {
  return fmt::format("{}{:06}", kWeightPrefix, version);
}

std::optional<std::uint64_t> weight_folder_version(std::string_view name) {
  const std::optional<std::uint64_t> version = number_in_name(std::string(name));
  if (version && name == weight_folder_name(*version)) return version;
  return {};
}

std::optional<std::uint64_t> number_in_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const std::size_t last = name.find_last_of(kDigits);
  if (last == name.npos) return {};
  const std::size_t before = name.find_last_not_of(kDigits, last);
  const std::size_t first = before == name.npos ? 0 : before + 1;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + first, name.data() + last + 1, number);
  if (error != std::errc()) return {};
  return number;
}

bool NumberOrder::operator()(const std::string& a, const std::string& b) const {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
      continue;
    }
    const auto run = [](const std::string& text, std::size_t& at) {
      const std::size_t end = std::min(text.find_first_not_of(kDigits, at), text.size());
      const std::size_t first = std::min(text.find_first_not_of('0', at), end);
      at = end;
      return std::string_view(text).substr(first, end - first);
    };
    const std::string_view left = run(a, i), right = run(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return a < b;  // they differ in leading zeros
}

}  // namespace sparcl::tool
