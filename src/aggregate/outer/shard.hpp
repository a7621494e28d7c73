#pragma once
// An aggregator's range of the elements: from the sum of a round to the result that all get. Steps:
// mean, outer optimiser, the residual is added, cut to the largest, rounded to the wire type.
// The residual holds the rest for the next round (error feedback downward).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/aggregate/outer/outer_optimizer.hpp"
#include "src/sparse/parts/entry_part.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::aggregate {

enum class MeanKind : std::uint8_t {
  kSum,              // no mean
  kByWeight,         // over the weights of the round's contributions
  kOverWorkers,      // over the workers that were active when the round began
  kOverContributors  // each element over the weights of the contributions that have it
};

struct ShardOptions {
  std::uint64_t first = 0;  // element; a multiple of 65536
  std::uint64_t count = 0;
  MeanKind mean = MeanKind::kByWeight;
  OuterOptions outer;
  bool has_cut = false;  // results are cut to the largest elements
  sparse::Wire wire = sparse::Wire::kSameType;

  bool has_residual() const { return has_cut || wire != sparse::Wire::kSameType; }
};

// The sum of a round in this shard. Parts of float32 whose positions are below `count`.
struct ShardInput {
  std::span<const std::byte> sum;
  std::span<const std::byte> weights;  // of kOverContributors: at the same positions
  double total_weight = 0;             // of the round
  std::uint32_t workers = 0;           // active when the round began
};

struct ShardResult {
  std::vector<std::uint64_t> indices;  // of the whole array, ascending
  std::vector<float> values;
};

class Shard {
 public:
  // Allocates the state: (1 + moments + residual) * 4 bytes an element, or nothing if a result is
  // the mean itself.
  static Result<Shard> create(const ShardOptions& options, const kernels::KernelSet& kernels);

  // For options without moments, cut and wire type: the result of a round as a part with the
  // positions of the sum. Errors as those of propose().
  Result<Buffer> result_part(BufferSource& buffers, const ShardInput& input);

  // The largest `keep` elements of this round's result (0: all that are not zero), which propose()
  // holds until keep() or the next proposal. InvalidArgument if the weights of all contributions
  // are 0, Corrupt if an input is no part of the shard: nothing has changed then.
  Status propose(const ShardInput& input, std::uint64_t keep);

  // The magnitude keys of the proposal, in its order. NaN > infinity > finite.
  std::vector<std::uint32_t> keys() const;

  // Keeps what has a larger key than `least`, and the first `ties` of those with this key; the rest
  // stays in the residual.
  ShardResult keep(std::uint32_t least = 0, std::uint64_t ties = UINT64_MAX);

  sparse::BlockRun run() const;  // of its parts: indices of the whole array
  const ShardOptions& options() const { return options_; }
  std::uint64_t steps() const { return steps_; }  // rounds that it has made
  double residual_squares() const;

  // The state as arrays of `count` values, for files and other aggregators.
  std::vector<std::span<float>> arrays();
  static std::vector<std::string> array_names(const ShardOptions& options);
  void set_steps(std::uint64_t steps) { steps_ = steps; }

 private:
  Shard(const ShardOptions& options, const kernels::KernelSet& kernels);

  bool is_dense() const { return options_.has_residual() || !moments_.empty(); }
  Status check(const ShardInput& input) const;
  Status read(const ShardInput& input);
  void divide(const ShardInput& input, std::span<const float> weights,
              std::span<float> values) const;
  void spread();  // the mean into dense_
  void run_optimizer(std::span<float> values);
  void take_largest(std::uint64_t keep);
  void take_all();
  void round_values();

  ShardOptions options_;
  const kernels::KernelSet* kernels_;
  std::uint64_t steps_ = 0;
  std::vector<std::vector<float>> moments_;
  std::vector<float> residual_;
  std::vector<float> dense_;  // of a round's mean

  ShardResult proposal_;
  std::vector<float> weights_;  // by entry of the proposal, while it is read
};

}  // namespace sparcl::aggregate
