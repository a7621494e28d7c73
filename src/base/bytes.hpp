#pragma once
// Little-endian bytes: bounds-checked reading of hostile input, appending to a buffer.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace sparcl {

static_assert(std::endian::native == std::endian::little,
              "the wire is little endian; a big-endian port needs byte swaps here");

template <std::integral T>
T load_le(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <std::integral T>
void store_le(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Reads from untrusted bytes. A read past the end returns false and leaves the reader where it was.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return at_; }
  std::size_t remaining() const { return bytes_.size() - at_; }

  template <std::integral T>
  [[nodiscard]] bool read(T& value) {
    if (remaining() < sizeof value) return false;
    value = load_le<T>(bytes_.data() + at_);
    at_ += sizeof value;
    return true;
  }

  // LEB128: seven bits a byte, low bits first, at most ten bytes. Overlong forms are refused, so a
  // value has one encoding.
  [[nodiscard]] bool read_varint(std::uint64_t& value);

  [[nodiscard]] bool read_bytes(std::size_t count, std::span<const std::byte>& out) {
    if (remaining() < count) return false;
    out = bytes_.subspan(at_, count);
    at_ += count;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

constexpr std::size_t kMaxVarintBytes = 10;

// Writes at most kMaxVarintBytes at `at` and returns how many.
std::size_t store_varint(std::byte* at, std::uint64_t value);

class ByteWriter {
 public:
  template <std::integral T>
  void write(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    store_le(bytes_.data() + at, value);
  }

  void write_varint(std::uint64_t value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + kMaxVarintBytes);
    bytes_.resize(at + store_varint(bytes_.data() + at, value));
  }

  void write_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace sparcl
