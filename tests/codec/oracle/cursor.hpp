#pragma once
// Reads bytes and bits, from the front, and refuses to read past the end.

#include <span>

#include "tests/codec/oracle/refusal.hpp"

namespace sparcl::oracle {

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  std::span<const std::byte> take(std::uint64_t count) {
    refuse_if(count > left(), "cut off");
    at_ += static_cast<std::size_t>(count);
    return bytes_.subspan(at_ - static_cast<std::size_t>(count), static_cast<std::size_t>(count));
  }

  // A little-endian number.
  std::uint64_t number(unsigned bytes) {
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (const std::byte byte : take(bytes)) {
      value |= std::to_integer<std::uint64_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned i = 0;; ++i) {
      const std::uint64_t byte = number(1);
      refuse_if(i == 9 && byte > 1, "a varint passes 64 bits");
      value |= (byte & 0x7f) << (7 * i);
      if (byte >= 0x80) continue;
      refuse_if(i > 0 && byte == 0, "a varint is overlong");
      return value;
    }
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

// Bits are counted from the low bit of each byte.
class BitCursor {
 public:
  explicit BitCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t at() const { return at_; }

  bool bit() {
    refuse_if(at_ / 8 >= bytes_.size(), "a block is cut off inside its bits");
    const bool set = (std::to_integer<unsigned>(bytes_[at_ / 8]) >> (at_ % 8) & 1) != 0;
    ++at_;
    return set;
  }

  // A number of `bits` bits, low bit first.
  std::uint64_t number(unsigned bits) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bits; ++i) value |= std::uint64_t{bit()} << i;
    return value;
  }

  // How many zeros come before the next one.
  std::uint64_t unary() {
    std::uint64_t zeros = 0;
    while (!bit()) ++zeros;
    return zeros;
  }

  // Zero bits up to the last byte's end, and no byte more.
  void end() {
    refuse_if((at_ + 7) / 8 != bytes_.size(), "a block has bytes left over");
    while (at_ % 8 != 0) refuse_if(bit(), "a block's padding is not zero");
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace sparcl::oracle
