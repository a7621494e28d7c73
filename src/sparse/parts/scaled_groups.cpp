#include "src/sparse/parts/scaled_groups.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "src/base/bytes.hpp"
#include "src/base/float_environment.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::uint32_t kSizeMask = 0x7fffffff, kInfinity = 0x7f800000;

float scale_of(std::uint16_t word) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(word & 0x7fff) << 16);
}

std::size_t bits_of(ValueForm form) { return form == ValueForm::kScaled4 ? 4 : 2; }

std::size_t code_bytes(ValueForm form, std::size_t count) {
  return (count * bits_of(form) + 7) / 8;
}

// Whether the levels contain the values. -0 is none of them.
bool contain(const GroupLevels& levels, const std::uint32_t* values, std::size_t count) {
  std::array<std::uint8_t, kScaledGroup> places;
  levels.find(values, count, places.data());
  std::uint32_t differing = 0;
  for (std::size_t i = 0; i < count; ++i)
    differing |= (levels.sizes()[places[i]] ^ (values[i] & kSizeMask)) |
                 (values[i] == kSizeMask + 1 ? 1U : 0U);
  return differing == 0;
}

// The upper half of largest / level, if that has no lower half.
std::optional<std::uint16_t> scale_for(std::uint32_t largest, int level) {
  const float scale = std::bit_cast<float>(largest) / static_cast<float>(level);
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  if ((bits & 0xffff) != 0 || bits == 0) return std::nullopt;
  return static_cast<std::uint16_t>(bits >> 16);
}

// Calls act(std::integral_constant) with the number of bits.
template <class Act>
bool with_bits(ValueForm form, const Act& act) {
  return form == ValueForm::kScaled4 ? act(std::integral_constant<unsigned, 4>())
                                     : act(std::integral_constant<unsigned, 2>());
}

template <unsigned kBits>
void write_codes(const GroupLevels& levels, const std::uint32_t* values, std::size_t count,
                 std::byte* to) {
  std::array<std::uint8_t, kScaledGroup + 3> codes{};
  levels.find(values, count, codes.data());
  for (std::size_t i = 0; i < count; ++i) codes[i] = levels.code(codes[i], values[i] >> 31 != 0);
  constexpr unsigned kEach = 8 / kBits;
  for (std::size_t at = 0; at < count; at += kEach) {
    unsigned byte = 0;
    for (unsigned i = 0; i < kEach; ++i) byte |= unsigned{codes[at + i]} << (kBits * i);
    *to++ = static_cast<std::byte>(byte);
  }
}

// False if there is an invalid code, or one behind the last. values: room for a group.
template <unsigned kBits>
bool read_codes(const GroupLevels& levels, const std::byte* from, std::size_t count,
                float* values) {
  constexpr unsigned kEach = 8 / kBits, kCodes = 1U << kBits;
  const unsigned invalid = kBits == 4 || levels.has_zero() ? kCodes / 2 : kCodes;
  const std::array<float, 16> decoded = levels.decoded();
  unsigned seen = 0;  // a bit for each code
  for (std::size_t at = 0; at < count; at += kEach) {
    const auto byte = std::to_integer<unsigned>(*from++);
    for (unsigned i = 0; i < kEach; ++i) {
      const unsigned code = byte >> (kBits * i) & (kCodes - 1);
      seen |= 1U << code;
      values[at + i] = decoded[code];
    }
  }
  const auto in_last = static_cast<unsigned>(count % kEach);
  const bool ends_cleanly =
      in_last == 0 || std::to_integer<unsigned>(from[-1]) >> (kBits * in_last) == 0;
  return ends_cleanly && (seen >> invalid & 1) == 0;
}

}  // namespace

GroupLevels::GroupLevels(ValueForm form, std::uint16_t word)
    : form_(form), word_(word), count_(form == ValueForm::kScaled4 ? 8 : 2) {
  const float scale = scale_of(word);
  const int first = form == ValueForm::kScaled2 && (word & kWithZero) == 0 ? 2 : 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const auto level = static_cast<float>(first + static_cast<int>(i));
    sizes_[i] = std::bit_cast<std::uint32_t>(level * scale);
    if (i + 1 < count_) limits_[i] = std::bit_cast<std::uint32_t>((level + 0.5F) * scale);
  }
}

bool GroupLevels::is_valid(ValueForm form, std::uint16_t word) {
  const bool with_zero = (word & kWithZero) != 0;
  return (word & 0x7fff) <= max_scale(form, with_zero) &&
         (form == ValueForm::kScaled2 || !with_zero);
}

void GroupLevels::find(const std::uint32_t* values, std::size_t count, std::uint8_t* places) const {
  if (form_ == ValueForm::kScaled2) {
    for (std::size_t i = 0; i < count; ++i)
      places[i] = static_cast<std::uint8_t>((values[i] & kSizeMask) > limits_[0]);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t size = values[i] & kSizeMask;
    std::uint32_t place = 0;
    for (std::size_t j = 0; j < 7; ++j) place += size > limits_[j] ? 1U : 0U;
    places[i] = static_cast<std::uint8_t>(place);
  }
}

std::uint8_t GroupLevels::code(std::uint8_t place, bool is_negative) const {
  const bool is_minus = is_negative && (place > 0 || !has_zero());
  if (form_ == ValueForm::kScaled2) return static_cast<std::uint8_t>(place | (is_minus ? 2U : 0U));
  return static_cast<std::uint8_t>(is_minus ? (16U - place) & 15U : place);
}

std::array<float, 16> GroupLevels::decoded() const {
  std::array<float, 16> values{};
  for (std::size_t i = 0; i < count_; ++i) {
    const auto place = static_cast<std::uint8_t>(i);
    const float size = std::bit_cast<float>(sizes_[i]);
    values[code(place, false)] = size;
    if (size != 0) values[code(place, true)] = -size;
  }
  return values;
}

std::optional<GroupLevels> exact_levels(ValueForm form, const std::uint32_t* values,
                                        std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, values[i] & kSizeMask);
  if (largest >= kInfinity) return std::nullopt;
  const bool is_two = form == ValueForm::kScaled2;
  for (int level = is_two ? 3 : 7; largest > 0 && level > 0; --level) {
    const std::optional<std::uint16_t> scale = scale_for(largest, level);
    const bool with_zero = is_two && level == 1;
    if (!scale || *scale > GroupLevels::max_scale(form, with_zero)) continue;
    const GroupLevels levels(
        form, static_cast<std::uint16_t>(*scale | (with_zero ? GroupLevels::kWithZero : 0)));
    if (contain(levels, values, count)) return levels;
  }
  const GroupLevels zero(form, is_two ? GroupLevels::kWithZero : 0);
  return largest == 0 && contain(zero, values, count) ? std::optional(zero) : std::nullopt;
}

bool append_groups(ValueForm form, const std::byte* values, std::size_t count, std::size_t first,
                   std::vector<std::byte>& out) {
  const FloatEnvironment ieee;
  const std::size_t before = out.size(), limit = before + 4 * count;
  std::size_t own = std::min(count, first == 0 ? kScaledGroup : first);
  out.push_back(static_cast<std::byte>(own == 0 ? 0 : own - 1));
  std::array<std::uint32_t, kScaledGroup> group;
  for (std::size_t at = 0; at < count; at += own, own = std::min(kScaledGroup, count - at)) {
    std::memcpy(group.data(), values + 4 * at, 4 * own);
    const std::optional<GroupLevels> levels = exact_levels(form, group.data(), own);
    const std::size_t to = out.size(), bytes = levels ? code_bytes(form, own) : 4 * own;
    if (to + 2 + bytes >= limit) {
      out.resize(before);
      return false;
    }
    out.resize(to + 2 + bytes);
    store_le<std::uint16_t>(out.data() + to, levels ? levels->word() : GroupLevels::kExactWord);
    if (levels) {
      with_bits(form, [&](auto bits) {
        write_codes<bits()>(*levels, group.data(), own, out.data() + to + 2);
        return true;
      });
    } else {
      std::memcpy(out.data() + to + 2, values + 4 * at, bytes);
    }
  }
  return true;
}

bool read_groups(ValueForm form, std::span<const std::byte> groups, std::size_t count,
                 std::byte* values) {
  const FloatEnvironment ieee;
  if (groups.empty()) return false;
  std::size_t own = std::to_integer<std::size_t>(groups.front()) + 1;
  if (own > kScaledGroup || own > std::max<std::size_t>(count, 1)) return false;
  groups = groups.subspan(1);
  std::array<float, kScaledGroup> group;
  for (std::size_t at = 0; at < count; at += own, own = std::min(kScaledGroup, count - at)) {
    if (groups.size() < 2) return false;
    const auto word = load_le<std::uint16_t>(groups.data());
    const bool is_exact = word == GroupLevels::kExactWord;
    const std::size_t bytes = is_exact ? 4 * own : code_bytes(form, own);
    if (groups.size() - 2 < bytes || (!is_exact && !GroupLevels::is_valid(form, word)))
      return false;
    const std::byte* from = groups.data() + 2;
    if (is_exact) {
      std::memcpy(values + 4 * at, from, bytes);
    } else {
      const bool is_read = with_bits(form, [&](auto bits) {
        return read_codes<bits()>(GroupLevels(form, word), from, own, group.data());
      });
      if (!is_read) return false;
      std::memcpy(values + 4 * at, group.data(), 4 * own);
    }
    groups = groups.subspan(2 + bytes);
  }
  return groups.empty();
}

}  // namespace sparcl::sparse
