#pragma once
// One rank's input of a top-k all-reduce: the min(k, non-zeros) elements of acc = values + residual
// with the largest |acc|. NaN > infinity > finite, ties to the lower index. Exact: a pure function
// of values, residual and k, for every instruction set.
//
// Method: guess the k-th largest magnitude (from a sample of acc, or from the call before). One
// pass adds, writes the residual and takes the elements that reach the guess. Then cut exactly
// among the taken elements. If the guess was too high, a second pass follows, which only reads.
// Cost: with feedback 3 n bytes for each byte of an accumulator (as `residual += values`), and
// O(k).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/diff.hpp"
#include "kernels/kernel_set.hpp"
#include "src/sparse/selection/candidates.hpp"

namespace sparcl::sparse {

// Views into the Selection, valid until its next call.
struct Selected {
  std::span<const std::uint64_t> indices;  // ascending
  const std::byte* accumulators;  // acc of each, as accumulator_type() of the data type: float32
                                  // for small floats
  std::uint64_t least =
      0;  // the smallest magnitude key among them, 0 if none: the next call's hint
  std::uint64_t taken = 0;  // elements that reached the guess in the last pass
  int passes = 0;           // more than 1 if a guess was too high
};

class Selection {
 public:
  // A piece of the array with its own k: a tensor, a block.
  struct Part {
    std::uint64_t count;
    std::uint64_t k;
  };

  // Integers of 8 and 16 bits and bool have no accumulators (kernels/accumulate.hpp).
  static bool supports(DataType type, const kernels::KernelSet& kernels) {
    return kernels.accumulate_of(type).accumulate != nullptr;
  }
  Selection(DataType type, const kernels::KernelSet& kernels);

  // Allocates the memory for such calls: about 1.5 k entries and 1 MB, independent of count.
  // Otherwise the call allocates it, before it writes anything: std::bad_alloc leaves the residual
  // unchanged.
  void reserve(std::uint64_t count, std::uint64_t k);

  // values: count elements, any alignment, only read. residual: count accumulators, on return acc,
  // all of it; NULL: no feedback, nothing is written. hint: `least` of an earlier call, 0: none.
  // The hint saves the sample. It pays only if thresholds are steady (threshold_drift()). If
  // magnitudes fell by more than a 256th, it costs a pass. If they rose by some percent (while
  // residuals fill up), it costs a longer cut.
  Selected select(const std::byte* values, std::byte* residual, std::uint64_t count,
                  std::uint64_t k, std::uint64_t hint = 0);

  // The k of each part, with indices of the whole array. The parts are consecutive and cover it.
  Selected select_parts(const std::byte* values, std::byte* residual, std::span<const Part> parts);

 private:
  static constexpr std::size_t kBlock =
      8192;  // heuristic: its accumulators and values fit the L2 cache

  // The source of elements: the values, or the accumulators that a pass has left in the residual.
  struct Source {
    const std::byte* values;
    std::byte* residual;  // NULL: only values
    DataType type;
    std::size_t value_bytes, accumulator_bytes;
    const kernels::AccumulateKernels* kernels;

    std::size_t take(std::uint64_t first, std::size_t count, std::uint64_t least,
                     std::uint16_t* positions, std::byte* taken) const;
  };
  Source source_of(DataType type, const std::byte* values, std::byte* residual) const;

  void select_part(const Source& source, std::uint64_t first, const Part& part, std::uint64_t hint,
                   Selected& all);
  bool pass(const Source& source, std::uint64_t first, const Part& part, std::uint64_t guess,
            Selected& all);
  std::uint64_t guess_by_sample(const Source& source, std::uint64_t first, const Part& part);
  std::uint64_t below(std::uint64_t key) const;
  Selected finish(Selected all) const;

  DataType type_;
  const kernels::KernelSet& kernels_;
  Candidates candidates_;
  std::array<std::uint16_t, kBlock + kernels::kPositionSlack> positions_;
  std::vector<std::uint64_t> sample_;
};

// The number that a magnitude key represents.
double magnitude_of(DataType type, std::uint64_t key);

// The ratio of a call's k-th largest magnitude to that of the call before: 1.02 is 2 % more; 0 if
// one of them has none.
double threshold_drift(DataType type, std::uint64_t before, std::uint64_t now);

}  // namespace sparcl::sparse
