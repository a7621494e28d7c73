#pragma once
// Groups of up to 128 float32 with one bfloat16 scale s. With 4 bits a value is m s, m in -7..7.
// With 2 bits a group has one of two sets of levels: -3s -2s 2s 3s, for values that are all far
// from 0 (selected ones); or -s 0 s. Docs: decision 0035. The coding is lossless for values that
// were rounded so (selection/group_rounding.hpp).
//
// - first byte: values of the first group - 1
// - groups: u16 word, then their codes, the first in the lowest bits, and zeros up to a byte. Word:
//   bits 0-14 the upper half of s; bit 15, of 2 bits only: the levels are -s 0 s. Word 0xffff: the
//   values follow unmodified
// - codes of 4 bits: m as two's complement; -8 is invalid. Codes of 2 bits: bit 0 selects 3s
//   instead of 2s, or s instead of 0; bit 1 is the sign; -0 is invalid

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "kernels/group_levels.hpp"
#include "src/sparse/parts/value_form.hpp"

namespace sparcl::sparse {

// The levels of a group, as the word says.
class GroupLevels {
 public:
  static constexpr std::uint16_t kWithZero = 0x8000, kExactWord = 0xffff;

  // form: kScaled4 or kScaled2; the word is valid.
  GroupLevels(ValueForm form, std::uint16_t word);

  static std::uint16_t max_scale(ValueForm form, bool with_zero) {
    return kernels::max_group_scale(form == ValueForm::kScaled4 ? 4 : 2, with_zero);
  }
  static bool is_valid(ValueForm form, std::uint16_t word);

  std::uint16_t word() const { return word_; }
  // The levels' sizes, ascending, as bits of float32.
  std::span<const std::uint32_t> sizes() const { return std::span(sizes_).first(count_); }
  // places[i]: the index of the size nearest to |values[i]|; of two, the smaller.
  void find(const std::uint32_t* values, std::size_t count, std::uint8_t* places) const;
  // The values of all codes.
  std::array<float, 16> decoded() const;
  bool has_zero() const { return sizes_[0] == 0; }
  // The code of a size and a sign.
  std::uint8_t code(std::uint8_t place, bool is_negative) const;

 private:
  ValueForm form_;
  std::uint16_t word_;
  std::size_t count_;
  std::array<std::uint32_t, 8> sizes_{};
  std::array<std::uint32_t, 8> limits_{};  // sizes above limits_[i] take a place above i
};

// The levels that contain all of a group's values exactly, if there are any.
std::optional<GroupLevels> exact_levels(ValueForm form, const std::uint32_t* values,
                                        std::size_t count);

// Appends `count` float32 (any alignment), the first `first` of which are the rest of a group.
// False if these take as many bytes as the values; `out` is then unchanged.
bool append_groups(ValueForm form, const std::byte* values, std::size_t count, std::size_t first,
                   std::vector<std::byte>& out);

// Reads untrusted bytes: `count` float32. False if the bytes are not that.
bool read_groups(ValueForm form, std::span<const std::byte> groups, std::size_t count,
                 std::byte* values);

}  // namespace sparcl::sparse
