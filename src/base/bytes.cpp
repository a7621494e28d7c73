#include "src/base/bytes.hpp"

namespace sparcl {

bool ByteReader::read_varint(std::uint64_t& value) {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < kMaxVarintBytes && i < remaining(); ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes_[at_ + i]);
    const std::uint64_t bits = byte & 0x7f;
    if (i == kMaxVarintBytes - 1 && bits > 1) return false;  // past 64 bits
    result |= bits << (7 * i);
    if ((byte & 0x80) == 0) {
      if (i > 0 && bits == 0) return false;  // overlong
      at_ += i + 1;
      value = result;
      return true;
    }
  }
  return false;
}

std::size_t store_varint(std::byte* at, std::uint64_t value) {
  std::size_t i = 0;
  while (value >= 0x80) {
    at[i++] = static_cast<std::byte>(value | 0x80);
    value >>= 7;
  }
  at[i++] = static_cast<std::byte>(value);
  return i;
}

}  // namespace sparcl
