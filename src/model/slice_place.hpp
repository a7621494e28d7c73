#pragma once
// Where a slice of a tensor lies in memory that holds the tensor, or a larger slice of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/model/schema.hpp"

namespace sparcl::model {

// Runs of contiguous bytes, all of one length, in the order in which they lie in the slice.
class SlicePlace {
 public:
  // All of what is held.
  static SlicePlace all(std::uint64_t bytes);
  // Nothing where `part` is of another tensor, or not inside of what is held. Both are valid.
  static std::optional<SlicePlace> find(const TensorSchema& part, const TensorSchema& held);

  std::uint64_t byte_count() const { return run_bytes_ * run_count_; }
  // One run: where it begins.
  bool is_contiguous() const { return run_count_ <= 1; }
  std::uint64_t first_byte() const { return first_byte_; }

  // Of bytes [first, first + count) of the slice, in their order: visit(byte of what is held, bytes
  // from there on).
  template <class Visit>
  void for_each_run(std::uint64_t first, std::uint64_t count, Visit&& visit) const {
    for (std::uint64_t run = count > 0 ? first / run_bytes_ : 0, in_run = first - run * run_bytes_;
         count > 0; ++run, in_run = 0) {
      const std::uint64_t bytes = std::min(run_bytes_ - in_run, count);
      visit(run_begin(run) + in_run, bytes);
      count -= bytes;
    }
  }

 private:
  struct Loop {
    std::uint64_t count;
    std::uint64_t stride_bytes;
  };
  std::uint64_t run_begin(std::uint64_t run) const;

  std::uint64_t first_byte_ = 0;
  std::uint64_t run_bytes_ = 0;
  std::uint64_t run_count_ = 1;
  std::vector<Loop> loops_;  // over the runs, the outermost first
};

struct PlacedSlice {
  std::size_t tensor = 0;  // of those that are held
  SlicePlace place;
};

// Where each tensor or slice of `parts` lies in tensors of the schema `held`. Mismatch names the
// first that does not.
Result<std::vector<PlacedSlice>> place_slices(const Schema& parts, const Schema& held);

}  // namespace sparcl::model
