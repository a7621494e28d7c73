#pragma once
// Which exponent classes code a region in the fewest bits: from a sample, by dynamic programming
// over intervals of keys. Integers only, so that every sender decides alike.

#include <array>
#include <cstdint>

#include "src/codec/class_table.hpp"

namespace sparcl::codec {

// What a sample of elements and their changes says of each key.
class ClassSample {
 public:
  static constexpr unsigned kWidths = 16;  // of |d|: at most 2^15

  struct Key {
    std::uint64_t elements = 0;
    std::uint64_t changes = 0;
    std::uint64_t exceptions = 0;
    std::array<std::uint32_t, kWidths> listed{};  // exceptions by floor(log2(|d| - 1))
    std::array<std::uint32_t, kWidths> all{};     // changes by floor(log2(|d|))
  };

  // `count` elements of 16-bit floats, as they were and as they will be.
  void add(const std::byte* base, const std::byte* target, std::size_t count);

  // What another has counted of a key; its exceptions and changes follow from it.
  void add(unsigned key, std::uint32_t elements, const std::uint32_t* listed,
           const std::uint32_t* all);

  std::uint64_t elements() const { return elements_; }
  std::uint64_t changes() const { return changes_; }
  Key key(unsigned i) const;

 private:
  static constexpr std::size_t kTables =
      4;  // in turn: most keys are alike, and an increment would wait for the one before it

  void add_change(std::uint16_t old_value, std::uint16_t new_value);

  std::array<Key, 256> keys_{};  // but for the elements
  std::array<std::array<std::uint32_t, 256>, kTables> key_elements_{};
  std::uint64_t elements_ = 0;
  std::uint64_t changes_ = 0;
};

struct ClassChoice {
  ClassTable table;
  std::uint64_t sample_bits = 0;  // about what the sample costs with it
};

// The best table of at most kMaxChosen classes for a region of which this is a sample.
constexpr unsigned kMaxChosen =
    8;  // from 10 on the passes over the elements lose speed (CPU registers, store streams)
ClassChoice choose_classes(const ClassSample& sample, std::uint64_t region_elements);

// The same of a table that is there already, or of one class alone: what its classes would cost the
// sample.
std::uint64_t sample_bits(const ClassTable& table, const ClassSample& sample);

// What a table costs a region beyond its classes' bits, as bits of the sample.
std::uint64_t overhead_bits(unsigned classes, const ClassSample& sample,
                            std::uint64_t region_elements);

}  // namespace sparcl::codec
