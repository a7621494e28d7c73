#pragma once
// What one rank may call otherwise than the others, a row each: what all ranks then return, and
// what the text must say.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/mismatch/desk.hpp"

namespace sparcl::test {

// What belongs to one rank's deviating arguments; lives as long as the call.
struct Extras {
  std::vector<std::unique_ptr<OwnedState>> states;
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  std::vector<std::uint16_t> array;
  std::vector<std::uint64_t> indices;
  std::size_t nnz = 0;
  std::vector<OwnedMask> masks;
  std::vector<float> values;
  sparclTopKOptions_t top_k_options = SPARCL_TOPK_OPTIONS_INITIALIZER;
  sparclBroadcastOptions_t broadcast_options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
  sparclMaskedOptions_t masked_options = SPARCL_MASKED_OPTIONS_INITIALIZER;
  sparclSparseOptions_t sparse_options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
  std::vector<OwnedFeedback> feedbacks;
  sparclAggregateOptions_t aggregate_options = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
  std::vector<OwnedAggregator> aggregators;
  std::vector<int> ranks;

  sparclState_t state_of(const std::vector<TensorSpec>& tensors) {
    return states.emplace_back(std::make_unique<OwnedState>(tensors))->handle();
  }
  // An aggregator of a call's own.
  const sparclAggregateOptions_t* aggregate_by(std::size_t count,
                                               const sparclAggregatorOptions_t* how = nullptr) {
    aggregate_options.aggregator = aggregators.emplace_back(count, how).handle();
    return &aggregate_options;
  }
  sparclFeedback_t feedback_of(std::size_t count, sparclDataType_t datatype) {
    return feedbacks.emplace_back(count, datatype).handle();
  }
  sparclMask_t keep(OwnedMask mask) { return masks.emplace_back(std::move(mask)).handle(); }
};

enum class Who { kAny, kRoot, kOther };

struct MismatchRow {
  const char* name;
  Operation operation;
  Operation odd_operation;  // usually the same
  Who who;                  // which rank can be the odd one
  void (*change)(Arguments& arguments, Extras& extras, int ranks);
  sparclResult_t expected;
  // On every rank; $root and $odd_root stand for the others' root and the odd rank's.
  std::vector<std::string> texts;
};

std::vector<MismatchRow> mismatch_table();

// Calls made one after another, or started together, in other orders.
struct SequenceRow {
  const char* name;
  std::vector<Operation> odd, others;
  std::vector<sparclResult_t> expected;  // of each place, on all ranks
  bool in_flight;                        // all are started before the first is waited for
};

std::vector<SequenceRow> sequence_table();

// Settings that must be alike: of a communicator of its own.
struct SettingMismatchRow {
  const char* name;
  sparclVerify_t verify;  // sparclVerify..., of the odd rank's config
  const char* variable;   // of the odd rank's environment, or nullptr
  const char* value;
  std::vector<std::string> texts;
  std::vector<Operation> operations;  // that heed it
};

std::vector<SettingMismatchRow> setting_mismatch_table();

}  // namespace sparcl::test
