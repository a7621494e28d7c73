#pragma once
// Which elements of an array: their positions, block by block, in two bytes an element.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::sparse {

constexpr std::uint64_t kSupportFrame = 65536;  // elements that a position tells apart

class Support {
 public:
  struct Block {
    std::uint64_t base = 0;  // index of position 0: 2^16 times a whole number
    std::size_t first = 0;   // of its positions
    std::size_t count = 0;
  };

  explicit Support(const kernels::KernelSet& kernels) : kernels_(&kernels) {}

  // Appends elements that come after all present ones.
  void append(std::uint64_t base, const std::uint16_t* positions, std::size_t count);
  void append(std::uint64_t index) {
    const auto position = static_cast<std::uint16_t>(index);
    append(index - position, &position, 1);
  }

  // The elements of all parts, of one run with blocks of 2^16 elements. False if a part is none of
  // the run, or has an element beyond an array of `count`.
  [[nodiscard]] bool unite(std::span<const std::span<const std::byte>> parts, const BlockRun& run,
                           std::uint64_t count);

  std::size_t size() const { return positions_.size(); }
  std::span<const Block> blocks() const { return blocks_; }
  const std::uint16_t* positions(const Block& block) const {
    return positions_.data() + block.first;
  }

  // values[i] = array[i-th element], of `width` bytes.
  void gather(const std::byte* array, std::size_t width, std::byte* values) const;
  // The same, and sets the elements to zero.
  void take(std::byte* array, std::size_t width, std::byte* values) const;
  // The inverse: array[i-th element] = values[i].
  void put(const std::byte* values, std::size_t width, std::byte* array) const;

 private:
  template <class AfterBlock>
  void visit(const std::byte* array, std::size_t width, std::byte* values,
             const AfterBlock& after) const;

  const kernels::KernelSet* kernels_;
  std::vector<Block> blocks_;
  std::vector<std::uint16_t> positions_;
};

// Writes the values at the support's elements, and +0 elsewhere.
void write_supported(const kernels::KernelSet& kernels, const Support& support,
                     const std::byte* values, std::size_t width, std::uint64_t count,
                     std::byte* array);

}  // namespace sparcl::sparse
