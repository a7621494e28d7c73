#pragma once
// The location of a slice of a tensor in memory that has the tensor, or a larger slice of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/model/schema.hpp"

namespace sparcl::model {

// Runs of contiguous bytes, all of one length, in the order of the slice's elements.
class SlicePlace {
 public:
  // The whole held tensor.
  static SlicePlace all(std::uint64_t bytes);
  // nullopt if `part` is of another tensor, or not inside the held one. Both are valid.
  static std::optional<SlicePlace> find(const TensorSchema& part, const TensorSchema& held);

  std::uint64_t byte_count() const { return run_bytes_ * run_count_; }
  // A single run, and its start.
  bool is_contiguous() const { return run_count_ <= 1; }
  std::uint64_t first_byte() const { return first_byte_; }

  // For bytes [first, first + count) of the slice, in their order: visit(byte of the held tensor,
  // number of bytes from there).
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
  std::size_t tensor = 0;  // index in the held tensors
  SlicePlace place;
};

// Locates each tensor or slice of `parts` in the tensors of the schema `held`. Mismatch names the
// first that is not there.
Result<std::vector<PlacedSlice>> place_slices(const Schema& parts, const Schema& held);

}  // namespace sparcl::model
