#include "src/trust/trust_changes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/trust/new_key_file.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::trust {
namespace {

// A line of a file, and the key that it names.
struct TrustLine {
  std::string text;
  std::optional<PublicKey> key{};
};

Result<std::vector<TrustLine>> read_trust_lines(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const TrustedKeys keys, TrustedKeys::load(path));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path));
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<TrustLine> lines;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    lines.push_back({std::string(line)});
  }
  for (const TrustedKeys::Trusted& each : keys.all()) {
    if (each.line <= lines.size()) lines[each.line - 1].key = each.key;
  }
  return lines;
}

Status remove_key(const std::string& path, const std::string& name, std::vector<TrustLine>& lines) {
  const auto is_it = [&](const TrustLine& line) {
    return line.key && fingerprint(*line.key) == name;
  };
  if (std::erase_if(lines, is_it) > 0) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{}: no key there has the fingerprint {}: sparcl trust {} lists them",
                            path, name, path));
}

Status add_keys(const std::string& from, std::vector<TrustLine>& lines) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<TrustLine> added, read_trust_lines(from));
  for (const TrustLine& each : added) {
    const auto is_same = [&](const TrustLine& line) { return line.key == each.key; };
    if (each.key && std::ranges::none_of(lines, is_same)) lines.push_back(each);
  }
  return {};
}

}  // namespace

Status change_trusted_keys(const std::string& given, const std::vector<std::string>& add,
                           const std::vector<std::string>& remove) {
  const std::string path = behind_links(given);
  SPARCL_ASSIGN_OR_RETURN(const FileLock lock, lock_folder_of(path));
  std::vector<TrustLine> lines;
  if (::access(path.c_str(), F_OK) == 0) {
    SPARCL_ASSIGN_OR_RETURN(lines, read_trust_lines(path));
  }
  for (const std::string& each : add) SPARCL_RETURN_IF_ERROR(add_keys(each, lines));
  for (const std::string& each : remove) SPARCL_RETURN_IF_ERROR(remove_key(path, each, lines));
  if (std::ranges::none_of(lines, [](const TrustLine& line) { return line.key.has_value(); })) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: no key would be left, and a replica with this file could apply "
                              "nothing: add another key first (--add)",
                              path));
  }
  std::string text;
  for (const TrustLine& each : lines) text += each.text + '\n';
  const FileOwner owner(path);
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  SPARCL_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  SPARCL_RETURN_IF_ERROR(file.commit());
  return owner.give_to(path);
}

}  // namespace sparcl::trust
