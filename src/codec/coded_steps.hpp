#pragma once
// The steps of a block where many elements change (docs/reference/wire-format.md): a token for each
// element, unchanged ones among them, through the entropy coder given how large its old value is.
// An update of one size is more units in the last place of a small value than of a large one, so
// that tells a part of the size of the step.

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

// Ready to be written.
class CodedSteps {
 public:
  // `base`: the block before its changes. About the bytes, rather too few: tables and rounding come
  // on top. Takes a look at the changes and at some of the elements; 0 where that would not pay.
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
  // What does not depend on what is held. Hostile bytes; they outlive find(). nullptr, or what is
  // wrong.
  const char* read(BlockShape shape, std::span<const std::byte> payload, std::size_t count);
  // The positions and steps of all changes against the block that is held (room for `count` of
  // read()). False if none fit: what is held is not the base.
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
