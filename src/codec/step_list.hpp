#pragma once
// The steps of a list of changes (docs/reference/wire-format.md). Most are +1 or -1 in units of the
// last place, and cost only their sign. The other steps are listed with their size; if most are
// larger, all sizes are coded. Modes differ in how they code the elements that the steps belong to.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

// A list that is ready to be written: its size is known before the first bit is written.
class StepList {
 public:
  // Old and new values of `count` changes.
  void prepare(const kernels::KernelSet& kernels, DataType datatype, const std::byte* old_values,
               const std::byte* new_values, std::size_t count);

  std::size_t head_bytes() const;
  std::uint64_t bits() const;

  std::byte* write_head(std::byte* out) const;
  // The bits before the marks, and the bits from the marks on.
  void write_planes(kernels::BitWriter& bits) const;
  void write_unary(kernels::BitWriter& bits) const;

 private:
  void choose_form();
  void collect(const std::uint16_t* which, std::size_t count, unsigned less);

  const kernels::KernelSet* kernels_ = nullptr;
  std::size_t width_ = 0;
  std::size_t count_ = 0;
  Scratch<std::byte> magnitudes_;      // |d| of each change
  Scratch<std::uint64_t> negative_;    // a bitmap of the changes
  Scratch<std::uint16_t> exceptions_;  // changes with |d| != 1
  RiceList exception_list_;
  Scratch<std::uint64_t> coded_;   // the m's
  Scratch<std::uint8_t> lengths_;  // of their codes
  std::size_t coded_count_ = 0;
  std::uint64_t size_bits_ = 0;  // of the codes
  unsigned exponent_ = 0;
  bool all_ = false;
};

// Reads untrusted bytes, in the order in which they are written. Each call returns nullptr, or a
// description of the error.
class StepListReader {
 public:
  const char* read_head(std::span<const std::byte>& payload, std::size_t count);
  // Steps of the type's width: room for `count`.
  const char* read_planes(const kernels::KernelSet& kernels, DataType datatype, BitCursor& bits,
                          std::byte* steps);
  const char* read_unary(const kernels::KernelSet& kernels, DataType datatype, BitCursor& bits,
                         std::byte* steps);

 private:
  std::size_t count_ = 0;
  std::size_t sizes_ = 0;  // number of m's
  unsigned exponent_ = 0;
  bool all_ = false;
  RiceListReader exception_list_;
  Scratch<std::uint16_t> exceptions_;
  Scratch<std::uint8_t> lengths_;
  Scratch<std::uint64_t> coded_;
};

}  // namespace sparcl::codec
