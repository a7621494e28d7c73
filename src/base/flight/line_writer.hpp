#pragma once
// Text made without memory or locales, for signal handlers. Text that does not fit is cut. Bytes
// that could drive a terminal become '?'.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sparcl::flight {

class LineWriter {
 public:
  LineWriter& text(std::string_view text) noexcept {
    for (const char c : text) put(c >= 0x20 && c < 0x7f ? c : '?');
    return *this;
  }
  // Up to its first zero.
  template <std::size_t kBytes>
  LineWriter& text(const std::array<char, kBytes>& bytes) noexcept {
    const std::string_view all(bytes.data(), kBytes);
    return text(all.substr(0, all.find('\0')));
  }

  LineWriter& number(std::uint64_t value) noexcept {
    std::array<char, 20> digits;
    std::size_t first = digits.size();
    do digits[--first] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    return text({digits.data() + first, digits.size() - first});
  }
  LineWriter& number(std::int64_t value) noexcept {
    if (value >= 0) return number(static_cast<std::uint64_t>(value));
    return text("-").number(std::uint64_t{0} - static_cast<std::uint64_t>(value));
  }
  LineWriter& number(std::int32_t value) noexcept { return number(std::int64_t{value}); }
  LineWriter& number(std::uint32_t value) noexcept { return number(std::uint64_t{value}); }

  // "1.234 s", or "12 us" below one millisecond.
  LineWriter& duration(std::uint64_t ns) noexcept {
    if (ns < 1'000'000) return number(ns / 1000).text(" us");
    number(ns / 1'000'000'000).text(".");
    const std::uint64_t thousandths = ns / 1'000'000 % 1000;
    text(thousandths < 10 ? "00" : thousandths < 100 ? "0" : "").number(thousandths);
    return text(" s");
  }

  std::string_view view() const noexcept { return {bytes_.data(), length_}; }
  void clear() noexcept { length_ = 0; }

 private:
  void put(char c) noexcept {
    if (length_ < bytes_.size()) bytes_[length_++] = c;
  }

  std::array<char, 640> bytes_;
  std::size_t length_ = 0;
};

}  // namespace sparcl::flight
