#pragma once
// One rank's buffers for the table of mismatches: what it holds, what all ranks agree that it
// holds, and what the root sends next.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

enum class Operation { kDelta, kUpdate, kSparse, kMasked, kSparseSum, kTopK, kAggregate };
constexpr Operation kOperations[] = {
    Operation::kDelta,     Operation::kUpdate, Operation::kSparse,   Operation::kMasked,
    Operation::kSparseSum, Operation::kTopK,   Operation::kAggregate};
// It gives entries and gets entries.
constexpr bool sums_entries(Operation operation) {
  return operation == Operation::kSparseSum || operation == Operation::kAggregate;
}
constexpr bool has_root(Operation operation) { return operation < Operation::kMasked; }
const char* name_of(Operation operation);

// One call's arguments, of whichever operation.
struct Arguments {
  Operation operation = Operation::kDelta;
  int root = 0;
  sparclStream_t stream = nullptr;  // of blocking calls
  sparclDataType_t datatype = sparclBfloat16;
  // delta, and its options, which sparse has, too
  const sparclBroadcastOptions_t* broadcast_options = nullptr;
  void* weights = nullptr;
  const void* base = nullptr;
  std::size_t count = 0;
  // update
  sparclState_t state = nullptr;
  std::uint64_t version = 0;
  const sparclUpdateOptions_t* options = nullptr;
  // sparse
  void* values = nullptr;
  std::uint64_t* indices = nullptr;
  std::size_t* nnz = nullptr;
  std::size_t capacity = 0;
  // masked: with datatype and count
  const void* send = nullptr;
  void* receive = nullptr;
  sparclRedOp_t op = sparclSum;
  sparclMask_t mask = nullptr;
  const sparclMaskedOptions_t* masked_options = nullptr;
  // sparse sum: with datatype, count, op; what it gives in `send`, outputs as those of sparse
  const std::uint64_t* given_indices = nullptr;
  std::size_t given = 0;
  const sparclSparseOptions_t* sparse_options = nullptr;
  // top-k: with datatype, count, send, receive, op
  std::size_t k = 0;
  sparclFeedback_t feedback = nullptr;
  const sparclTopKOptions_t* top_k_options = nullptr;
  // aggregate: as a sparse sum, without op
  double weight = 1;
  const sparclAggregateOptions_t* aggregate_options = nullptr;
};

// With request nullptr it blocks.
sparclResult_t issue(const Arguments& arguments, sparclComm_t comm, sparclRequest_t* request);

struct TensorSpec {
  const char* name;
  sparclDataType_t datatype;  // of two or four bytes
  std::vector<std::uint64_t> shape;
  int priority = 0;
  int trainable = 1;
};

// A state with tensors of its own.
class OwnedState {
 public:
  explicit OwnedState(const std::vector<TensorSpec>& tensors);
  ~OwnedState();
  OwnedState(const OwnedState&) = delete;
  OwnedState& operator=(const OwnedState&) = delete;

  sparclState_t handle() const { return state_; }
  std::vector<std::vector<unsigned char>> bytes;

 private:
  sparclState_t state_ = nullptr;
};

// A mask that ends with its owner.
class OwnedMask {
 public:
  OwnedMask() = default;
  explicit OwnedMask(sparclMask_t mask) : mask_(mask) {}
  OwnedMask(OwnedMask&& other) noexcept : mask_(std::exchange(other.mask_, nullptr)) {}
  ~OwnedMask() { (void)sparclMaskDestroy(mask_); }
  sparclMask_t handle() const { return mask_; }

 private:
  sparclMask_t mask_ = nullptr;
};
OwnedMask indices_mask(const std::vector<std::uint64_t>& indices, std::size_t count);
OwnedMask random_mask(std::size_t count, double density, std::uint64_t seed);
OwnedMask blocks_mask(std::size_t count, std::size_t block, double density, std::uint64_t seed);

// A feedback that ends with its owner.
class OwnedFeedback {
 public:
  OwnedFeedback(std::size_t count, sparclDataType_t datatype) {
    (void)sparclFeedbackCreate(&feedback_, count, datatype);
  }
  OwnedFeedback(OwnedFeedback&& other) noexcept
      : feedback_(std::exchange(other.feedback_, nullptr)) {}
  ~OwnedFeedback() { (void)sparclFeedbackDestroy(feedback_); }
  sparclFeedback_t handle() const { return feedback_; }

 private:
  sparclFeedback_t feedback_ = nullptr;
};

// An aggregator of sums, unless `how` says otherwise, that ends with its owner.
class OwnedAggregator {
 public:
  explicit OwnedAggregator(std::size_t count, const sparclAggregatorOptions_t* how = nullptr);
  OwnedAggregator(OwnedAggregator&& other) noexcept
      : aggregator_(std::exchange(other.aggregator_, nullptr)) {}
  ~OwnedAggregator() { (void)sparclAggregatorDestroy(aggregator_); }
  sparclAggregator_t handle() const { return aggregator_; }

 private:
  sparclAggregator_t aggregator_ = nullptr;
};

constexpr std::size_t kDeltaCount = 1'000;
constexpr std::size_t kMaskedCount = 900;
constexpr double kMaskDensity = 0.1;
constexpr std::uint64_t kMaskSeed = 11;
constexpr std::size_t kEntries = 50, kCapacity = 60;
constexpr std::size_t kSumCount = 500, kSumEntries = 20,
                      kSumUnion = 30;  // entries of each rank, and of all together
constexpr std::size_t kTopKCount = 700, kTopKSelected = 9;
const std::vector<TensorSpec>& usual_tensors();

class Desk {
 public:
  Desk(int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // A new exchange from `root`: all ranks draw the same, and the root's own buffers hold it from
  // now on. The arguments of the right call are returned; several operations may be prepared at
  // once. A masked call has no root.
  Arguments prepare(Operation operation, int root);
  // Of a prepared call, which `odd` makes with these arguments: what of them all must know to tell
  // the result.
  void heed(int odd, const Arguments& odd_arguments);

  // What is in the buffers is what was in them before the call, which ended with `result`: empty,
  // or what is not.
  std::string untouched(Operation operation, sparclResult_t result) const;
  // The call has succeeded: the buffers hold the root's. From now on that is what all agree upon.
  std::string accept(Operation operation);

 private:
  std::uint64_t draw();
  void prepare_masked(Arguments& arguments);
  void prepare_sum(Arguments& arguments);
  void prepare_top_k(Arguments& arguments);
  void sum_top_k(int without_feedback);
  bool holds_sum(Operation operation, bool is_new, std::size_t nnz) const;
  bool holds_top_k(bool is_new) const;
  bool holds(Operation operation, bool is_new, std::size_t nnz) const;

  int rank_, ranks_;
  int root_[7] = {};  // by operation
  std::uint64_t seed_ = 1;
  std::uint64_t version_ = 0;
  std::vector<std::uint16_t> weights_, agreed_weights_, next_weights_;
  OwnedState state_;
  std::vector<std::vector<unsigned char>> agreed_tensors_, next_tensors_;
  std::vector<float> values_, next_values_;
  std::vector<std::uint64_t> indices_, next_indices_;
  std::size_t nnz_ = 0;
  OwnedMask mask_;
  std::vector<float> contribution_, received_, next_received_;
  // Of a sum of entries: what this rank gives, and what it gets.
  struct Sum {
    std::vector<std::uint64_t> given, indices, next_indices;
    std::vector<float> given_values, values, next_values;
    std::size_t nnz = 0;
  } sparse_sum_, aggregate_;
  Sum& sum_of(Operation operation) {
    return operation == Operation::kSparseSum ? sparse_sum_ : aggregate_;
  }
  OwnedAggregator aggregator_{kSumCount};
  sparclAggregateOptions_t aggregate_options_ = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
  OwnedFeedback feedback_;
  sparclTopKOptions_t top_k_options_ = SPARCL_TOPK_OPTIONS_INITIALIZER;
  using Floats = std::vector<float>;
  std::vector<Floats> top_k_values_, residuals_, next_residuals_;  // by rank
  Floats top_k_received_, next_top_k_received_;
};

}  // namespace sparcl::test
