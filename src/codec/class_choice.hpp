#pragma once
// Chooses the exponent classes that code a region in the fewest bits, from a sample, by dynamic
// programming over intervals of keys. Integers only, so that every sender decides alike.

#include <array>
#include <cstdint>

#include "src/codec/class_table.hpp"

namespace sparcl::codec {

// The counts of elements and changes of each key in a sample.
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

  // `count` elements of 16-bit floats, before and after the change.
  void add(const std::byte* base, const std::byte* target, std::size_t count);

  // The counts of one key from another counter; the numbers of exceptions and changes follow from
  // them.
  void add(unsigned key, std::uint32_t elements, const std::uint32_t* listed,
           const std::uint32_t* all);

  std::uint64_t elements() const { return elements_; }
  std::uint64_t changes() const { return changes_; }
  Key key(unsigned i) const;

 private:
  static constexpr std::size_t kTables =
      4;  // used in turn: most keys are equal, and an increment would wait for the previous one

  void add_change(std::uint16_t old_value, std::uint16_t new_value);

  std::array<Key, 256> keys_{};  // without the elements
  std::array<std::array<std::uint32_t, 256>, kTables> key_elements_{};
  std::uint64_t elements_ = 0;
  std::uint64_t changes_ = 0;
};

struct ClassChoice {
  ClassTable table;
  std::uint64_t sample_bits = 0;  // estimated cost of the sample with it
};

// The best table of at most kMaxChosen classes for the region of this sample.
constexpr unsigned kMaxChosen =
    8;  // with 10 or more, passes over the elements slow down (CPU registers, store streams)
ClassChoice choose_classes(const ClassSample& sample, std::uint64_t region_elements);

// The estimated cost of the sample with an existing table, or with a single class.
std::uint64_t sample_bits(const ClassTable& table, const ClassSample& sample);

// The cost of a table for a region beyond its classes' bits, as bits of the sample.
std::uint64_t overhead_bits(unsigned classes, const ClassSample& sample,
                            std::uint64_t region_elements);

}  // namespace sparcl::codec
