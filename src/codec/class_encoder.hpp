#pragma once
// Mode classes, the sender's side: a superblock's changes, sorted by the class of their old
// exponent and coded by their ranks in it. A small weight changes more often than a large one,
// because an update of the same size is more of its units in the last place. The receiver holds the
// old values and therefore needs fewer bits (docs/reference/wire-format.md).

#include <array>
#include <cstdint>
#include <vector>

#include "src/codec/block_view.hpp"
#include "src/codec/change_scan.hpp"
#include "src/codec/class_table.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/superblock.hpp"

namespace sparcl::codec {

class ClassEncoder {
 public:
  explicit ClassEncoder(const kernels::KernelSet& kernels) : kernels_(kernels) {}

  // Starts a superblock of this many elements. The table outlives the last call for it.
  void begin(const ClassTable& table, std::uint32_t elements);
  // Scans its blocks, in order, and writes the changes of one as ChangeScan does. They stay valid
  // until write(). Returns their number.
  std::size_t scan(const BlockView& base, const BlockView& target, std::span<const Piece> pieces,
                   const ChangeOutput& out);
  // Exact bytes of the content; 0 without a change. scan() may not be called afterwards.
  std::size_t plan();
  void write(std::byte* out);
  std::uint32_t changes() const { return changes_; }

 private:
  struct Scanned {
    const std::byte* old_values;
    const std::byte* new_values;
    std::size_t count;
  };

  void collect_changes();
  void collect_exceptions();
  void collect_far_steps();
  unsigned read_far_step(unsigned c);
  void write_sizes(kernels::BitWriter& out);

  const kernels::KernelSet& kernels_;
  const ClassTable* table_ = nullptr;
  std::uint32_t elements_ = 0;
  std::array<Scanned, kSuperBlocks> scanned_{};
  std::size_t scanned_count_ = 0;

  Scratch<std::int8_t>
      class_steps_;  // kernels::kClassStepBytes; zero except while a superblock is scanned
  kernels::ClassRanks class_elements_{};
  SuperCounts counts_{};
  std::uint32_t changes_ = 0;

  // For all changes, class by class.
  Scratch<std::uint32_t> ranks_;
  Scratch<std::int8_t> steps_;
  Scratch<std::int8_t> beyond_;  // |d| - 1
  Scratch<std::uint64_t> negative_;
  Scratch<std::uint16_t> remainders_;
  Scratch<std::uint32_t> marks_;

  // For changes with listed sizes, class by class.
  Scratch<std::uint32_t> places_;
  Scratch<std::int8_t> listed_;
  Scratch<std::uint16_t> place_remainders_;
  Scratch<std::uint32_t> place_marks_;
  std::size_t place_count_ = 0;
  Scratch<std::uint16_t> sizes_;  // m
  std::size_t size_count_ = 0;
  Scratch<std::uint8_t> lengths_;  // of their suffixes

  // d| of the steps that do not fit into a byte, in the order of their ranks in the class.
  std::array<std::vector<std::uint16_t>, kernels::kMaxClasses> far_steps_;
  std::array<std::size_t, kernels::kMaxClasses> far_read_{};
  Scratch<std::byte> magnitudes_;
  Scratch<std::uint64_t> signs_;
};

}  // namespace sparcl::codec
