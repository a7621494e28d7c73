#pragma once
// Elements that may be among the k largest: their indices, ascending, and their accumulators
// (kernels/accumulate.hpp).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/base/data_type.hpp"

namespace sparcl::sparse {

class Candidates {
 public:
  explicit Candidates(DataType accumulator);

  // Room for `capacity` entries. If that needs new memory, the old entries are lost.
  void reserve(std::uint64_t capacity);
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t room() const { return capacity_ - size_; }
  std::uint64_t size() const { return size_; }
  void shrink_to(std::uint64_t size) { size_ = size; }

  std::span<const std::uint64_t> indices() const { return {indices_.get(), size_}; }
  const std::byte* accumulators() const { return accumulators_.get(); }

  // The address for the next accumulators; then add() gives `count` of them their indices.
  std::byte* tail() { return accumulators_.get() + size_ * bytes_; }
  void add(std::uint64_t first, const std::uint16_t* positions, std::size_t count);

  // Keeps, of the entries from `begin` on, the k with the largest magnitude keys, on a tie the
  // first ones. Returns the smallest remaining key, 0 if none remains. In place: O(size), no
  // memory.
  std::uint64_t cut(std::uint64_t begin, std::uint64_t k);

  // The magnitude key of an accumulator.
  std::uint64_t key(const std::byte* accumulator) const;

 private:
  DataType type_;
  std::size_t bytes_;
  std::uint64_t capacity_ = 0;
  std::uint64_t size_ = 0;
  std::unique_ptr<std::uint64_t[]> indices_;
  std::unique_ptr<std::byte[]> accumulators_;
};

}  // namespace sparcl::sparse
