// Orders of calls, and settings, that differ between ranks.
#include "tests/mismatch/row_words.hpp"

namespace sparcl::test {
namespace {

constexpr auto kSparseSum = Operation::kSparseSum;
constexpr auto kTopK = Operation::kTopK;
constexpr auto kAggregate = Operation::kAggregate;

}  // namespace

std::vector<SequenceRow> sequence_table() {
  constexpr auto kOk = sparclSuccess;
  return {
      {"swapped", {kSparse, kDelta}, {kDelta, kSparse}, {kNo, kNo}, false},
      {"swapped with a masked one", {kMasked, kDelta}, {kDelta, kMasked}, {kNo, kNo}, false},
      {"a masked one turned around in flight",
       {kMasked, kUpdate, kSparse},
       {kSparse, kUpdate, kMasked},
       {kNo, kOk, kNo},
       true},
      {"sums swapped", {kSparseSum, kTopK}, {kTopK, kSparseSum}, {kNo, kNo}, false},
      {"sums turned around in flight",
       {kTopK, kMasked, kSparseSum},
       {kSparseSum, kMasked, kTopK},
       {kNo, kOk, kNo},
       true},
      {"aggregations turned around in flight",
       {kAggregate, kDelta, kSparseSum},
       {kSparseSum, kDelta, kAggregate},
       {kNo, kOk, kNo},
       true},
      {"swapped in flight", {kSparse, kDelta}, {kDelta, kSparse}, {kNo, kNo}, true},
      {"swapped, after one that is right",
       {kUpdate, kSparse, kDelta},
       {kUpdate, kDelta, kSparse},
       {kOk, kNo, kNo},
       true},
      {"turned around in flight",
       {kSparse, kUpdate, kDelta},
       {kDelta, kUpdate, kSparse},
       {kNo, kOk, kNo},
       true},
      // The odd rank goes on with the call after the one that it has left out, and later makes the
      // last call once more.
      {"left out", {kSparse, kUpdate, kUpdate}, {kDelta, kSparse, kUpdate}, {kNo, kNo, kOk}, false},
      {"made twice",
       {kDelta, kDelta, kSparse, kUpdate},
       {kDelta, kSparse, kUpdate, kUpdate},
       {kOk, kNo, kNo, kOk},
       false},
  };
}

std::vector<SettingMismatchRow> setting_mismatch_table() {
  const std::vector<Operation> broadcasts{kDelta, kUpdate, kSparse};
  return {
      {"verify of the config",
       sparclVerifyFull,
       nullptr,
       nullptr,
       {"differ in their settings", "SPARCL_VERIFY full", "SPARCL_VERIFY touched"},
       broadcasts},
      {"verify",
       sparclVerifyDefault,
       "SPARCL_VERIFY",
       "off",
       {"differ in their settings", "SPARCL_VERIFY off", "SPARCL_VERIFY touched"},
       broadcasts},
      {"fan-out",
       sparclVerifyDefault,
       "SPARCL_ALGO_BROADCAST",
       "binary_tree",
       {"differ in their settings", "SPARCL_ALGO_BROADCAST binary_tree", "SPARCL_ALGO_BROADCAST "},
       broadcasts},
      {"fragments",
       sparclVerifyDefault,
       "SPARCL_FRAGMENT_BYTES",
       "131072",
       {"differ in their settings", "SPARCL_FRAGMENT_BYTES 131072", "SPARCL_FRAGMENT_BYTES 65536"},
       broadcasts},
      {"all-reduce",
       sparclVerifyDefault,
       "SPARCL_ALGO_ALLREDUCE",
       "owner",
       {"differ in their settings", "SPARCL_ALGO_ALLREDUCE owner", "SPARCL_ALGO_ALLREDUCE auto"},
       {kMasked, kTopK}},
      {"sums of sparse vectors",
       sparclVerifyDefault,
       "SPARCL_ALGO_ALLREDUCE_SPARSE",
       "split",
       {"differ in their settings", "SPARCL_ALGO_ALLREDUCE_SPARSE split",
        "SPARCL_ALGO_ALLREDUCE_SPARSE auto"},
       {kSparseSum}},
      {"ways of aggregation",
       sparclVerifyDefault,
       "SPARCL_ALGO_AGGREGATE",
       "shards",
       {"differ in their settings", "SPARCL_ALGO_AGGREGATE shards", "SPARCL_ALGO_AGGREGATE auto"},
       {kAggregate}},
      {"determinism",
       sparclVerifyDefault,
       "SPARCL_DETERMINISM",
       "runs",
       {"differ in their options", "float32, sum, determinism runs)",
        "float32, sum, determinism canonical)"},
       {kSparseSum, kTopK}},
  };
}

}  // namespace sparcl::test
