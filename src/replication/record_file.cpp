#include "src/replication/record_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "src/base/checksum.hpp"
#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxRecordBytes = std::size_t{64} << 10;
constexpr std::string_view kChecksumName = "crc32c ";

std::string checksum_line(std::string_view text) {
  return fmt::format("{}{:08x}\n", kChecksumName, crc32c(std::as_bytes(std::span(text))));
}

Status damaged(const std::string& path, std::string_view kind) {
  return Status(
      Code::kCorrupt,
      fmt::format("{}: it is damaged, or no file '{}' of this version of sparcl", path, kind));
}

}  // namespace

Status write_record(const std::string& path, std::string_view kind, const RecordFields& fields) {
  std::string text = fmt::format("{}\n", kind);
  for (const auto& [name, value] : fields) text += fmt::format("{} {}\n", name, value);
  text += checksum_line(text);
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  SPARCL_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<std::optional<RecordFields>> read_record(const std::string& path, std::string_view kind) {
  std::error_code error;
  if (std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found)
    return std::optional<RecordFields>();
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(path));
  if (file.byte_count() > kMaxRecordBytes) return damaged(path, kind);
  std::string all(static_cast<std::size_t>(file.byte_count()), '\0');
  SPARCL_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(all))));
  const std::size_t end = all.rfind(kChecksumName);
  const std::string head = fmt::format("{}\n", kind);
  if (end == std::string::npos || !all.starts_with(head) ||
      all.substr(end) != checksum_line(all.substr(0, end))) {
    return damaged(path, kind);
  }
  RecordFields fields;
  std::string_view rest = std::string_view(all).substr(head.size(), end - head.size());
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t blank = std::min(line.find(' '), line.size());
    fields.emplace_back(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())));
  }
  return std::optional(std::move(fields));
}

std::string field_of(const RecordFields& fields, std::string_view name) {
  const auto found = std::ranges::find(
      fields, name, [](const auto& each) -> std::string_view { return each.first; });
  return found == fields.end() ? std::string() : found->second;
}

}  // namespace sparcl::replication
