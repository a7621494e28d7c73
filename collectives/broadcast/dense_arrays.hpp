#pragma once
// The arrays of a call as one range of bytes, one after the other.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::collectives::broadcast {

class DenseArrays {
 public:
  DenseArrays(const codec::BlockMap& map, std::span<std::byte* const> held,
              const kernels::KernelSet& kernels);

  std::uint64_t bytes() const { return bytes_; }

  // `count` bytes from `first`, which must lie in the range. nullptr: they lie in several arrays.
  std::byte* piece(std::uint64_t first, std::size_t count) const;
  void read(std::uint64_t first, std::size_t count, kernels::Output output, std::byte* out) const;
  // To the same range of `to`, the cache of which it does not take.
  void copy(std::uint64_t first, std::size_t count, const DenseArrays& to) const;
  void write(std::uint64_t first, std::span<const std::byte> bytes, kernels::Output output) const;

 private:
  struct Array {
    std::uint64_t first, end;  // in the range
    std::byte* data;
  };
  template <class Use>
  void for_pieces(std::uint64_t first, std::size_t count, Use&& use) const;

  std::vector<Array> arrays_;  // without empty ones
  std::uint64_t bytes_ = 0;
  const kernels::KernelSet& kernels_;
};

}  // namespace sparcl::collectives::broadcast
