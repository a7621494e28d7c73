#pragma once
// Exact selection of the k largest magnitudes. The result is a pure function of the values and k,
// for every instruction set: ties go to the lower index. Method: guess a threshold from a sample,
// collect the elements that reach it in one pass, and cut exactly among these. Cost: one read of
// the array and O(k).

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"

namespace sparcl::codec {

// Keeps the k largest of the entries offered to it, in O(k) memory. Indices are offered in
// ascending order.
class LargestK {
 public:
  explicit LargestK(std::uint64_t k);

  // A key below this cannot be among the k largest any more.
  std::uint64_t least() const { return least_; }
  void add(std::uint64_t index, std::uint64_t key) {
    if (key < least_) return;
    entries_.push_back({index, key});
    if (entries_.size() == capacity_) prune();
  }
  std::uint64_t size() const { return entries_.size(); }
  void clear();

  // The indices that were kept, ascending.
  std::vector<std::uint64_t> finish();

  // The same as a limit: kept is what has a larger key, or this key and an index below `end`.
  struct Limit {
    std::uint64_t key = 0;
    std::uint64_t end = 0;
  };
  Limit limit();

 private:
  struct Entry {
    std::uint64_t index;
    std::uint64_t key;
  };
  void prune();

  std::uint64_t k_;
  std::size_t capacity_;
  std::uint64_t least_ = 1;  // zeros are never selected
  std::vector<Entry> entries_;
};

// One more than the magnitude key of infinity, if the type has one: the key of every NaN.
std::uint64_t magnitude_cap(DataType type);

// The indices, ascending, of the min(k, non-zeros) elements with the largest magnitude; NaN >
// infinity > finite.
std::vector<std::uint64_t> top_k(const std::byte* array, std::uint64_t count, DataType type,
                                 std::uint64_t k, const kernels::KernelSet& kernels);

}  // namespace sparcl::codec
