#pragma once
// Sums of sparse vectors over all ranks. An algorithm is a file with its functions and a row in the
// table (sparse_sum.cpp). Symbols in the costs: P ranks, n elements, k entries of a rank, K entries
// of the union, w bytes of an entry. alpha: seconds of a message, beta: of a byte, gamma: of a
// summed entry.

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/collective.hpp"
#include "collectives/sparse_sum/part_messages.hpp"
#include "src/sparse/parts/part_sum.hpp"

namespace sparcl::collectives::sparse_sum {

// Receives the sum in ascending parts: each rank gets the same parts.
class SparseResult {
 public:
  virtual ~SparseResult() = default;
  // The part is valid except, maybe, for the order of positions. Keeps the part if it needs it.
  virtual void take(const Buffer& part, const sparse::PartView& view,
                    const sparse::BlockRun& run) = 0;
};

struct SparseSumCall {
  std::span<const std::uint64_t> indices;  // ascend strictly, below count
  const std::byte* values = nullptr;
  sparse::PartValues in = sparse::PartValues::kElements;  // their kind, on all ranks
  sparse::PartValues out =
      sparse::PartValues::kElements;  // the kind of the result's values; means are of elements only
  sparse::ValueForm form =
      sparse::ValueForm::kUnmodified;  // scaled: float32 that is sent in few bits over slow links
  std::uint64_t count = 0;
  sparse::SumKind kind;
  std::uint64_t max_entries = 0;  // of any rank
  std::uint32_t number = 0;       // of the call, for its channels
  SparseResult* result = nullptr;
};

// The shape of a call on this communicator, after the ranks have agreed. value_bytes: of a sent
// value; accumulator_bytes: of a summed value.
SumShape sum_shape(const CommContext& comm, std::uint64_t count, const Extents& extents,
                   std::size_t value_bytes, std::size_t accumulator_bytes, bool are_scaled = false);

struct SparseSumRow {
  const char* name;
  bool in_rank_order;  // sums of level `runs` equal those of all other such rows
  double (*seconds)(const LinkCost& link, const SumShape& shape);
  double (*scratch_bytes)(const LinkCost& link,
                          const SumShape& shape);  // besides the caller's arrays
  Task (*run)(const CommContext& comm, const SparseSumCall& call, Traffic& traffic);
  bool (*is_possible)(const SumShape& shape, Determinism determinism) = nullptr;  // nullptr: always
};

struct SparseSumPlan {
  const SparseSumRow* row = nullptr;
  double seconds = 0;  // predicted
};

std::span<const SparseSumRow> sparse_sum_table();
extern const comm::AlgorithmChoice kSparseSumAlgorithms;

// For a call's fingerprint: the forced row, counted from 1; 0: none.
std::uint8_t forced_row(std::string_view name);
std::string_view forced_row_name(std::uint8_t row);
// The cheapest row within the scratch limit, else the row with the least scratch. forced_name
// ("auto": none) is valid and narrows the choice; if its row is not possible, it counts as "auto".
// Measured link costs change from run to run, so they must not choose a row on which bits depend.
SparseSumPlan plan_sparse_sum(const LinkCost& link, const SumShape& shape, Determinism determinism,
                              std::string_view forced_name);
// The same for a communicator. Most of its calls are like the one before: planning takes 2 us, a
// fifth of a small call.
SparseSumPlan plan_sparse_sum(const CommContext& comm, const SumShape& shape,
                              Determinism determinism, std::string_view forced_name);

// The bytes that a rank of `own` entries must send in an exact sum, at least. Each own entry is
// sent once, and each of the sum's `all` entries to the ranks that did not make it (holder-owned
// reduction). Positions count with their entropy.
std::uint64_t exact_sum_bytes(const SumShape& shape, std::uint64_t own, std::uint64_t all);

// Blocks of the index space, small enough that each rank has some.
unsigned block_log2_for(std::uint64_t count, int ranks);
sparse::BlockRun whole_run(const CommContext& comm, const SparseSumCall& call);

// Packs own entries into a part; hand_over() unpacks a part into the caller's result. The time is
// added to traffic.produce_seconds.
Buffer pack_part(const CommContext& comm, const sparse::BlockRun& run,
                 std::span<const std::uint64_t> indices, const std::byte* values,
                 std::size_t value_bytes, Traffic& traffic);
// The same run by run, in the order of the index space.
class OwnParts {
 public:
  OwnParts(const CommContext& comm, const SparseSumCall& call, Traffic& traffic)
      : comm_(comm),
        value_bytes_(part_value_bytes(*comm.kernels, call.kind.datatype, call.in)),
        traffic_(traffic),
        all_(call.indices.size()),
        rest_(call.indices),
        rest_values_(call.values) {}

  Buffer take(const sparse::BlockRun& run);
  // The number of entries that were taken.
  std::uint64_t taken() const { return all_ - rest_.size(); }

 private:
  const CommContext& comm_;
  std::size_t value_bytes_;
  Traffic& traffic_;
  std::uint64_t all_;
  std::span<const std::uint64_t> rest_;  // not packed yet
  const std::byte* rest_values_;
};
void hand_over(const CommContext& comm, const SparseSumCall& call, const Buffer& part,
               const sparse::PartView& view, const sparse::BlockRun& run, Traffic& traffic);

// Poisons the communicator: the message of `peer` is no part.
Status refuse_part(const CommContext& comm, int peer);
constexpr int kNoPeer = -1;  // if the sender is unknown

// The cost of writing an entry of the result, relative to summing one. Heuristic: bench_sparse_sum.
constexpr double kTakeOfSum = 0.5;

// Lanes of a call's channel; 0 is the agreement's. Each has a second lane for the rest of large
// parts.
constexpr std::uint8_t kPartLane = 1;
constexpr std::uint8_t kSumLane = 3;

// The rows, each in the file of its name (two_level_sum.cpp).
double split_seconds(const LinkCost& link, const SumShape& shape);
double split_scratch_bytes(const LinkCost& link, const SumShape& shape);
Task sum_by_split(const CommContext& comm, const SparseSumCall& call, Traffic& traffic);
double gather_seconds(const LinkCost& link, const SumShape& shape);
double gather_scratch_bytes(const LinkCost& link, const SumShape& shape);
Task sum_by_gather(const CommContext& comm, const SparseSumCall& call, Traffic& traffic);
double doubling_seconds(const LinkCost& link, const SumShape& shape);
double doubling_scratch_bytes(const LinkCost& link, const SumShape& shape);
Task sum_by_doubling(const CommContext& comm, const SparseSumCall& call, Traffic& traffic);
bool two_level_is_possible(const SumShape& shape, Determinism determinism);
double two_level_seconds(const LinkCost& link, const SumShape& shape);
double two_level_scratch_bytes(const LinkCost& link, const SumShape& shape);
Task sum_by_two_levels(const CommContext& comm, const SparseSumCall& call, Traffic& traffic);

}  // namespace sparcl::collectives::sparse_sum
