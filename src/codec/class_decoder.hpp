#pragma once
// Mode classes, the receiver's side. The content is read at once. Then the changes of each block
// that it covers are found one block after another, from the held values.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/block_mode.hpp"
#include "src/codec/class_table.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

class ClassDecoder {
 public:
  explicit ClassDecoder(const kernels::KernelSet& kernels) : kernels_(kernels) {}

  // Reads the content of a class block: untrusted, kBitSlackBytes zero bytes after it. `elements`:
  // of its superblock. Returns nullptr, or an error that does not depend on the held values. The
  // table outlives the last call for it.
  const char* read(const ClassTable& table, std::uint32_t elements,
                   std::span<const std::byte> content);
  std::uint32_t changes() const { return changes_; }

  // The next block of the superblock, as steps against the held values. If these are not the base,
  // the steps are wrong, but inside the block.
  void next_block(const BlockView& held, DecodedBlock& block);
  // Alternative: adds the steps to the held values, which are the base. If a good part of the cache
  // lines has steps, this is faster than finding them first.
  void apply_block(const WritableBlockView& held);
  // After the last block: has each change found its element? If not, the held state is not the
  // base.
  bool fits() const { return found_ == changes_; }

 private:
  const char* read_ranks(BitCursor& bits);
  const char* read_places(BitCursor& bits);
  const char* read_sizes(BitCursor& bits);
  bool set_steps();
  bool add_far_step(unsigned c, std::uint32_t magnitude, std::int8_t& step);
  void spread();
  void clear();
  std::uint16_t take_far_step(const BlockView& held, const Piece& piece, std::uint16_t position);

  const kernels::KernelSet& kernels_;
  const ClassTable* table_ = nullptr;
  std::uint32_t elements_ = 0;
  SuperCounts counts_{};
  std::uint32_t changes_ = 0;
  std::uint32_t found_ = 0;

  Scratch<std::int8_t>
      class_steps_;  // kernels::kClassStepBytes; zero except for the steps of this superblock
  kernels::ClassRanks next_ranks_{};
  bool is_spread_ = false;

  // For all changes, class by class.
  Scratch<std::uint16_t> remainders_;
  Scratch<std::uint32_t> marks_;
  Scratch<std::uint32_t> ranks_;
  Scratch<std::int8_t> steps_;
  std::array<std::uint32_t, kernels::kMaxClasses>
      spread_changes_{};  // by class, needed to clear them

  Scratch<std::uint32_t> places_;  // indices in their class of the changes with listed sizes
  Scratch<std::uint32_t> sizes_;   // m
  std::array<std::vector<std::uint16_t>, kernels::kMaxClasses>
      far_steps_;  // d that do not fit into a byte, by rank
  std::array<std::size_t, kernels::kMaxClasses> far_read_{};
  bool has_far_steps_ = false;
  Scratch<std::int8_t> found_steps_;
  Scratch<std::uint16_t> far_places_;
};

}  // namespace sparcl::codec
