#include "src/codec/class_table.hpp"

#include <algorithm>
#include <bit>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr unsigned kAllKeysFlag = 0x08;
constexpr unsigned kRowExponentMask = 0x07;
constexpr std::size_t kRowBytes = 5;

std::uint64_t gamma_bits(std::uint64_t value, unsigned exponent) {
  return 2 * static_cast<unsigned>(std::bit_width((value >> exponent) + 1)) - 1 + exponent;
}

void write_gamma(std::uint64_t value, unsigned exponent, kernels::BitWriter& out) {
  const std::uint64_t v = (value >> exponent) + 1;
  const unsigned zeros = static_cast<unsigned>(std::bit_width(v)) - 1;
  out.put(std::uint64_t{1} << zeros, zeros + 1);
  out.put(kernels::low_bits(value, exponent), exponent);
  out.put(v - (std::uint64_t{1} << zeros), zeros);
}

// Values below 2^32 only, which is more than any count.
bool read_gamma(BitCursor& bits, unsigned exponent, std::uint64_t& value) {
  const std::uint64_t word =
      kernels::low_bits(kernels::load_bits(bits.bytes, bits.at), bits.left());
  const auto zeros = static_cast<unsigned>(std::countr_zero(word));
  if (zeros + exponent > 31 || bits.left() < 2 * zeros + 1 + exponent) return false;
  const std::uint64_t suffix =
      kernels::low_bits(kernels::load_bits(bits.bytes, bits.at + zeros + 1), zeros + exponent);
  value = (((std::uint64_t{1} << zeros) - 1) << exponent) + suffix;
  bits.at += 2 * zeros + 1 + exponent;
  return true;
}

}  // namespace

void store(const ClassTable& table, std::byte* out) {
  *out++ = static_cast<std::byte>(table.cut.count);
  for (unsigned c = 0; c < table.cut.count; ++c, out += kRowBytes) {
    const ClassRow& row = table.rows[c];
    store_le(out, table.cut.lowest[c]);
    store_le(out + 1, static_cast<std::uint8_t>(row.exponent | (row.all ? kAllKeysFlag : 0)));
    store_le(out + 2, row.changes.code);
    store_le(out + 3, row.exceptions.code);
    store_le(out + 4, row.elements.code);
  }
}

const char* parse(std::span<const std::byte> content, ClassTable& table) {
  if (content.empty()) return "is empty";
  const auto count = static_cast<unsigned>(content[0]);
  if (count == 0 || count > kernels::kMaxClasses || content.size() != 1 + kRowBytes * count)
    return "has not as many classes as it says";
  table = {};
  table.cut.count = count;
  for (unsigned c = 0; c < count; ++c) {
    const std::byte* at = content.data() + 1 + kRowBytes * c;
    const auto lowest = load_le<std::uint8_t>(at);
    const auto parameters = load_le<std::uint8_t>(at + 1);
    if ((c > 0 && lowest >= table.cut.lowest[c - 1]) || (lowest == 0) != (c + 1 == count))
      return "has classes that do not descend to zero";
    if (parameters > (kAllKeysFlag | kRowExponentMask)) return "has invalid parameters";
    for (std::size_t i = 2; i < kRowBytes; ++i) {
      if (load_le<std::uint8_t>(at + i) > kernels::kLargestExpectation)
        return "expects more than there is room for";
    }
    if (load_le<std::uint8_t>(at + 3) > load_le<std::uint8_t>(at + 2))
      return "expects more exceptions than changes";
    table.cut.lowest[c] = lowest;
    table.rows[c] = {(parameters & kAllKeysFlag) != 0,
                     static_cast<std::uint8_t>(parameters & kRowExponentMask),
                     {load_le<std::uint8_t>(at + 2)},
                     {load_le<std::uint8_t>(at + 3)},
                     {load_le<std::uint8_t>(at + 4)}};
  }
  return nullptr;
}

std::uint64_t head_bits(const ClassTable& table, std::uint32_t elements,
                        const SuperCounts& counts) {
  std::uint64_t bits = 0;
  kernels::for_each_class_number(
      table, elements, counts, [&](std::uint32_t count, const kernels::CountExpectation& expected) {
        bits += gamma_bits(expected.fold(count), expected.exponent);
      });
  return bits;
}

void write_head(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts,
                kernels::BitWriter& out) {
  kernels::for_each_class_number(
      table, elements, counts, [&](std::uint32_t count, const kernels::CountExpectation& expected) {
        write_gamma(expected.fold(count), expected.exponent, out);
      });
}

bool read_head(const ClassTable& table, std::uint32_t elements, std::uint32_t changes,
               BitCursor& bits, SuperCounts& counts) {
  return kernels::read_class_numbers(
      table, elements, changes,
      [&](unsigned exponent, std::uint64_t& number) { return read_gamma(bits, exponent, number); },
      counts);
}

}  // namespace sparcl::codec
