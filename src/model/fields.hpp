#pragma once
// The fields that messages and commits are made of. Reading: false where bytes are missing or mean
// nothing.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {

constexpr std::size_t kMaxTextBytes = 4096;

// Longer ones are cut.
inline void write_text(ByteWriter& out, std::string_view text) {
  text = text.substr(0, kMaxTextBytes);
  out.write(static_cast<std::uint16_t>(text.size()));
  out.write_bytes(std::as_bytes(std::span(text)));
}

// Fit for a log and a terminal: a question mark for each control byte, and for each byte that is no
// ASCII where it is not all UTF-8.
inline std::string to_printable(std::string_view text) {
  std::string out(text);
  const bool is_text = is_utf8(text);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned char>(out[i]);
    const bool is_c1 =
        byte == 0xc2 && i + 1 < out.size() && static_cast<unsigned char>(out[i + 1]) < 0xa0;
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) out[i] = '?';
    if (is_c1) out[i] = out[i + 1] = '?';
  }
  return out;
}

// Reads text of a peer, made printable.
[[nodiscard]] inline bool read_text(ByteReader& bytes, std::string& text) {
  std::uint16_t count = 0;
  std::span<const std::byte> content;
  if (!bytes.read(count) || count > kMaxTextBytes || !bytes.read_bytes(count, content))
    return false;
  text = to_printable({reinterpret_cast<const char*>(content.data()), content.size()});
  return true;
}

inline void write_blob(ByteWriter& out, std::span<const std::byte> blob) {
  out.write(static_cast<std::uint32_t>(blob.size()));
  out.write_bytes(blob);
}

[[nodiscard]] inline bool read_blob(ByteReader& bytes, std::vector<std::byte>& blob) {
  std::uint32_t count = 0;
  std::span<const std::byte> content;
  if (!bytes.read(count) || !bytes.read_bytes(count, content)) return false;
  blob.assign(content.begin(), content.end());
  return true;
}

inline void write_hash(ByteWriter& out, const Hash128& hash) {
  out.write(hash.low);
  out.write(hash.high);
}

[[nodiscard]] inline bool read_hash(ByteReader& bytes, Hash128& hash) {
  return bytes.read(hash.low) && bytes.read(hash.high);
}

inline void write_flag(ByteWriter& out, bool flag) {
  out.write(static_cast<std::uint8_t>(flag ? 1 : 0));
}

[[nodiscard]] inline bool read_flag(ByteReader& bytes, bool& flag) {
  std::uint8_t value = 0;
  if (!bytes.read(value) || value > 1) return false;
  flag = value != 0;
  return true;
}

// Floats by their bits.
inline void write_double(ByteWriter& out, double value) {
  out.write(std::bit_cast<std::uint64_t>(value));
}

[[nodiscard]] inline bool read_double(ByteReader& bytes, double& value) {
  std::uint64_t bits = 0;
  if (!bytes.read(bits)) return false;
  value = std::bit_cast<double>(bits);
  return true;
}

inline void write_float(ByteWriter& out, float value) {
  out.write(std::bit_cast<std::uint32_t>(value));
}

[[nodiscard]] inline bool read_float(ByteReader& bytes, float& value) {
  std::uint32_t bits = 0;
  if (!bytes.read(bits)) return false;
  value = std::bit_cast<float>(bits);
  return true;
}

template <std::size_t N>
[[nodiscard]] bool read_array(ByteReader& bytes, std::array<std::byte, N>& array) {
  std::span<const std::byte> content;
  if (!bytes.read_bytes(N, content)) return false;
  std::ranges::copy(content, array.begin());
  return true;
}

}  // namespace sparcl::model
