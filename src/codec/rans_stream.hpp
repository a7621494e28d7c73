#pragma once
// Symbols of a block through the entropy coder: w (varint) words, the states of the lanes, the
// words (docs/reference/wire-format.md).

#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/codec/rans_table.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

// A stream to write. It is coded at once, because only then its size is known.
class RansStream {
 public:
  // contexts: nullptr, or one of the tables a symbol. At most 65,536 symbols.
  void code(const kernels::KernelSet& kernels, const std::uint8_t* symbols,
            const std::uint8_t* contexts, std::size_t count, std::span<const Frequencies> tables);
  std::size_t bytes() const;
  std::byte* write(std::byte* out) const;

 private:
  Scratch<kernels::RansPush> push_;
  Scratch<std::uint16_t> room_;
  const std::uint16_t* words_ = nullptr;
  std::size_t word_count_ = 0;
  kernels::RansStates states_{};
};

class RansStreamReader {
 public:
  // Takes a stream from the front of untrusted bytes. False if it is incomplete.
  bool take(std::span<const std::byte>& payload, std::size_t max_words);
  // False if the stream does not decode to symbols of these contexts.
  bool decode(const kernels::KernelSet& kernels, std::span<const Frequencies> tables,
              const std::uint8_t* contexts, std::size_t count, std::uint8_t* symbols);

 private:
  std::span<const std::byte> words_;
  kernels::RansStates states_{};
  Scratch<std::uint32_t> pop_;
};

}  // namespace sparcl::codec
