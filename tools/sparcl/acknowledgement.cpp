#include "tools/sparcl/acknowledgement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <string_view>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/version_folder.hpp"

namespace sparcl::tool {
namespace {

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
constexpr std::size_t kMaxName = 128;            // a temporary name beside it is longer
constexpr std::size_t kMaxAcknowledgement = 32;  // bytes; the largest number has 20 digits
constexpr double kRetrySeconds = 10;             // after a failed write; heuristic

}  // namespace

std::string reader_name_fault(const std::string& name) {
  const bool is_good = !name.empty() && name.size() <= kMaxName && name.front() != '.' &&
                       name.find_first_not_of(kNameCharacters) == name.npos;
  if (is_good) return {};
  return fmt::format(
      "'{}' is no name of a reader: give 1 to {} letters, digits, '.', '-' or '_', "
      "without a dot at the front",
      name, kMaxName);
}

std::string acknowledgement_folder(const std::string& folder) {
  return (std::filesystem::path(folder) / "acks").string();
}

std::string acknowledgement_path(const std::string& folder, const std::string& reader) {
  return acknowledgement_folder(folder) + "/" + reader;
}

Result<std::uint64_t> read_acknowledgement(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(path));
  std::array<char, kMaxAcknowledgement> text{};
  const std::size_t bytes = std::min<std::uint64_t>(file.byte_count(), text.size());
  SPARCL_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(text).first(bytes))));
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + bytes, version);
  const bool is_whole = error == std::errc() && file.byte_count() == bytes &&
                        std::string_view(end, text.data() + bytes) == "\n";
  if (is_whole) return version;
  return Status(Code::kCorrupt,
                fmt::format("{}: its {} bytes are not the number of a version and a newline: let "
                            "the reader write it again",
                            path, file.byte_count()));
}

Status write_acknowledgement(const std::string& folder, const std::string& reader,
                             std::uint64_t version) {
  const std::string path = acknowledgement_path(folder, reader);
  std::error_code error;
  std::filesystem::create_directory(acknowledgement_folder(folder), error);
  if (error)
    return Status(Code::kSystemError, fmt::format("{}: it cannot be made: {}",
                                                  acknowledgement_folder(folder), error.message()));
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  const std::string text = fmt::format("{}\n", version);
  SPARCL_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

void Acknowledger::note(const std::string& path) {
  noted_ = number_in_name(path);
  if (!noted_ && troubles_.count("no number", 0) > 0)
    print_note(
        fmt::format("{}: its name has no number to acknowledge: reader {} acknowledges nothing",
                    path, reader_));
}

void Acknowledger::write(double now) {
  if (!noted_ || now < retry_at_) return;
  const Status status = write_acknowledgement(folder_, reader_, *noted_);
  if (status.ok()) return noted_.reset();
  retry_at_ = now + kRetrySeconds;
  if (const std::uint64_t times = troubles_.count("write", now); times > 0)
    print_warning(
        fmt::format("version {} is not acknowledged, and the publisher keeps older ones; it is "
                    "tried again: {}{}",
                    *noted_, status.message(), times_text(times)));
}

}  // namespace sparcl::tool
