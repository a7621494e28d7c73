#include "src/model/exchange/exchange_format.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "src/base/bytes.hpp"

namespace sparcl::model {
namespace {

constexpr std::array kFormats{&kCooFormat, &kCooZstdFormat, &kIndicesFormat, &kDeltasFormat,
                              &kDeltasZstdFormat};
constexpr std::string_view kAttachmentKey = "sparcl.attachment";  // hexadecimal
constexpr std::string_view kVersionsKey = "sparcl.versions";      // "base target"
constexpr std::string_view kStatesKey = "sparcl.states";          // the same of their hashes

struct TorchName {
  DataType type;
  std::string_view name;
};
constexpr std::array kTorchNames{TorchName{DataType::kFloat8e4m3, "float8_e4m3fn"},
                                 TorchName{DataType::kFloat8e5m2, "float8_e5m2"}};

std::string to_hex_text(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

bool from_hex_text(std::string_view text, std::vector<std::byte>& bytes) {
  if (text.size() % 2 != 0) return false;
  bytes.resize(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, value, 16);
    if (error != std::errc() || end != text.data() + 2 * i + 2) return false;
    bytes[i] = static_cast<std::byte>(value);
  }
  return true;
}

bool read_versions(std::string_view text, SparseChange& change) {
  const char* end = text.data() + text.size();
  const auto [middle, error] = std::from_chars(text.data(), end, change.base_version);
  if (error != std::errc() || middle == end || *middle != ' ') return false;
  const auto [last, second_error] = std::from_chars(middle + 1, end, change.target_version);
  return second_error == std::errc() && last == end;
}

// As to_hex() writes it.
std::optional<Hash128> read_hash(std::string_view text) {
  std::vector<std::byte> bytes;
  if (!from_hex_text(text, bytes) || bytes.size() != sizeof(Hash128)) return {};
  return Hash128{load_le<std::uint64_t>(bytes.data()), load_le<std::uint64_t>(bytes.data() + 8)};
}

bool read_states(std::string_view text, SparseChange& change) {
  const std::size_t space = text.find(' ');
  if (space == text.npos) return false;
  change.base_hash = read_hash(text.substr(0, space));
  change.target_hash = read_hash(text.substr(space + 1));
  return change.base_hash && change.target_hash;
}

}  // namespace

std::span<const ExchangeFormat* const> exchange_formats() { return kFormats; }

const ExchangeFormat* find_exchange_format(std::string_view name) {
  for (const ExchangeFormat* format : kFormats) {
    if (format->name == name) return format;
  }
  return nullptr;
}

const ExchangeFormat* recognise(const TensorFile& file, bool is_packed) {
  const ExchangeFormat* found = nullptr;
  for (const ExchangeFormat* format : kFormats) {
    if (!format->is_it(file)) continue;
    if ((format->zstd_level > 0) == is_packed) return format;
    if (found == nullptr) found = format;
  }
  return found;
}

std::string_view torch_name(DataType type) {
  for (const TorchName& row : kTorchNames) {
    if (row.type == type) return row.name;
  }
  return info(type).name;  // the other types have the same names
}

void write_own_metadata(const SparseChange& change, Metadata& metadata) {
  if (change.base_version != 0 || change.target_version != 0) {
    metadata.emplace_back(kVersionsKey,
                          fmt::format("{} {}", change.base_version, change.target_version));
  }
  if (change.base_hash && change.target_hash) {
    metadata.emplace_back(
        kStatesKey, fmt::format("{} {}", to_hex(*change.base_hash), to_hex(*change.target_hash)));
  }
  if (!change.attachment.empty())
    metadata.emplace_back(kAttachmentKey, to_hex_text(serialise(change.attachment)));
}

Status read_own_metadata(const TensorFile& file, SparseChange& change) {
  if (const std::string* versions = file.find_metadata(kVersionsKey);
      versions != nullptr && !read_versions(*versions, change)) {
    return Status(Code::kCorrupt, fmt::format("metadata {} are no two versions", kVersionsKey));
  }
  if (const std::string* states = file.find_metadata(kStatesKey);
      states != nullptr && !read_states(*states, change)) {
    return Status(Code::kCorrupt, fmt::format("metadata {} are no two state hashes", kStatesKey));
  }
  const std::string* text = file.find_metadata(kAttachmentKey);
  if (text == nullptr) return {};
  std::vector<std::byte> bytes;
  if (!from_hex_text(*text, bytes))
    return Status(Code::kCorrupt,
                  fmt::format("metadata {} is no hexadecimal text", kAttachmentKey));
  Result<Attachment> attachment = parse_attachment(bytes);
  if (attachment.ok()) change.attachment = std::move(*attachment);
  return attachment.status();
}

}  // namespace sparcl::model
