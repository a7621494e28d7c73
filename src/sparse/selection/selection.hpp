#pragma once
// What one rank gives to a top-k all-reduce: the min(k, non-zeros) elements of acc = values +
// residual with the largest |acc|, NaN > infinity > finite, ties to the lower index. Exact, a pure
// function of values, residual and k, whatever the instruction set.
//
// Method: a guess of the k-th largest magnitude (from a sample of acc, or from the call before),
// one pass that adds, writes the residual and takes what reaches the guess, and an exact cut among
// what was taken. Where the guess was too high: one more pass, which only reads. Cost: with
// feedback 3 n bytes an accumulator's byte (as `residual += values`), and O(k).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/diff.hpp"
#include "kernels/kernel_set.hpp"
#include "src/sparse/selection/candidates.hpp"

namespace sparcl::sparse {

// Views into the Selection, good until its next call.
struct Selected {
  std::span<const std::uint64_t> indices;  // ascending
  const std::byte* accumulators;  // acc of each, as accumulator_type() of the data type: float32
                                  // for small floats
  std::uint64_t least = 0;  // the least magnitude key among them, 0 if none: the next call's hint
  std::uint64_t taken = 0;  // elements that reached the guess in the last pass
  int passes = 0;           // 1, or more where a guess was too high
};

class Selection {
 public:
  // A piece of the array with a k of its own: a tensor, a block.
  struct Part {
    std::uint64_t count;
    std::uint64_t k;
  };

  // Integers of 8 and 16 bits and bool have no accumulators (kernels/accumulate.hpp).
  static bool supports(DataType type, const kernels::KernelSet& kernels) {
    return kernels.accumulate_of(type).accumulate != nullptr;
  }
  Selection(DataType type, const kernels::KernelSet& kernels);

  // Takes the memory for such calls: about 1.5 k entries and 1 MB, never in proportion to count.
  // Else the call takes it, before anything is written: std::bad_alloc leaves the residual as it
  // was.
  void reserve(std::uint64_t count, std::uint64_t k);

  // values: count elements, any alignment, only read. residual: count accumulators, on return acc,
  // all of it; NULL: no feedback, nothing is written. hint: `least` of a call before, 0: none. It
  // spares the sample, and pays only where thresholds are steady (threshold_drift()): where
  // magnitudes fell by more than a 256th it costs a pass, where they rose by some percent (as while
  // residuals fill up) a longer cut.
  Selected select(const std::byte* values, std::byte* residual, std::uint64_t count,
                  std::uint64_t k, std::uint64_t hint = 0);

  // The k of each part, indices of the whole array. The parts follow each other and are all of it.
  Selected select_parts(const std::byte* values, std::byte* residual, std::span<const Part> parts);

 private:
  static constexpr std::size_t kBlock =
      8192;  // heuristic: its accumulators and values fit the second cache

  // Where elements are read: as values, or as the accumulators that a pass has left in the
  // residual.
  struct Source {
    const std::byte* values;
    std::byte* residual;  // NULL: values alone
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

// What a magnitude key stands for, as a number.
double magnitude_of(DataType type, std::uint64_t key);

// How far the k-th largest magnitude of a call is from that of the one before: 1.02 is 2 % more; 0
// where one of them has none.
double threshold_drift(DataType type, std::uint64_t before, std::uint64_t now);

}  // namespace sparcl::sparse
