#pragma once
// The steps of a block with many changes (docs/reference/wire-format.md): a token for each element,
// including unchanged ones, entropy-coded given the size of its old value. An update of the same
// size is more units in the last place for a small value than for a large one. The old value
// therefore predicts a part of the step's size.

#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/block_view.hpp"
#include "src/codec/key_contexts.hpp"
#include "src/codec/rans_stream.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

struct ChangeList {
  const std::uint16_t* positions;
  const std::byte* old_values;
  const std::byte* new_values;
  std::size_t count;
};

// Steps that are ready to be written.
class CodedSteps {
 public:
  // `base`: the block before its changes. An estimate of the bytes, rather too low: tables and
  // rounding are not included. Examines the changes and some of the elements; 0 if the mode would
  // not pay.
  std::size_t min_bytes(const kernels::KernelSet& kernels, BlockShape shape, const std::byte* base,
                        const ChangeList& changes);
  // False if it would not take fewer bytes than `enough`, or hardly fewer.
  bool prepare(const kernels::KernelSet& kernels, BlockShape shape, const std::byte* base,
               const ChangeList& changes, std::size_t enough);
  std::size_t bytes() const;
  void write(std::byte* out) const;

 private:
  template <class T>
  void find_tokens();
  void take(const kernels::KernelSet& kernels, BlockShape shape, const ChangeList& changes);
  std::size_t min_bytes(BlockShape shape, const std::byte* base, const std::byte* old_values);
  std::uint64_t bits_with(std::uint64_t stream_cost) const;
  template <class T>
  void write_extra(kernels::BitWriter& bits) const;

  std::size_t width_ = 0;
  std::size_t count_ = 0;
  Scratch<std::uint8_t> keys_;
  Scratch<std::uint8_t> contexts_;
  Scratch<std::uint8_t> change_tokens_;
  Scratch<std::uint8_t> tokens_;  // of all elements
  Scratch<std::byte> sample_;
  Scratch<std::byte> magnitudes_;
  Scratch<std::uint64_t> negative_;
  std::uint64_t extra_bits_ = 0;
  ContextChoice choice_;
  std::vector<std::uint8_t> bounds_;
  std::vector<Frequencies> tables_;
  RansStream stream_;
};

class CodedStepsReader {
 public:
  // Reads the part that does not depend on the held values. Untrusted bytes; they outlive find().
  // Returns nullptr, or a description of the error.
  const char* read(BlockShape shape, std::span<const std::byte> payload, std::size_t count);
  // Finds the positions and steps of all changes in the held block (room for `count` of read()).
  // False if they do not fit: the held block is not the base.
  bool find(const kernels::KernelSet& kernels, BlockShape shape, const std::byte* held,
            std::uint16_t* positions, std::byte* steps);

 private:
  template <class T>
  bool read_steps(const std::uint16_t* positions, std::byte* steps) const;

  std::size_t count_ = 0;
  std::vector<std::uint8_t> bounds_;
  std::vector<Frequencies> tables_;
  RansStreamReader stream_;
  BitCursor bits_{};
  Scratch<std::uint8_t> keys_;
  Scratch<std::uint8_t> tokens_;
};

}  // namespace sparcl::codec
