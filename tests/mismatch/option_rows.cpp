#include "tests/mismatch/option_rows.hpp"

#include <iterator>
#include <utility>

#include "tests/mismatch/row_words.hpp"

namespace sparcl::test {
namespace {

using Texts = std::vector<std::string>;

// The odd rank's options are others.
#define SPARCL_CALL_OPTION_ROW(operation, options, field, value, name, expected, ...) \
  MismatchRow {                                                                       \
    name, operation, operation, Who::kAny,                                            \
        [](Arguments& a, Extras& extras, int) {                                       \
          extras.options.field = static_cast<decltype(extras.options.field)>(value);  \
          a.options = &extras.options;                                                \
        },                                                                            \
        expected, Texts __VA_ARGS__                                                   \
  }

std::vector<MismatchRow> broadcast_option_rows(Operation operation) {
  return {
      SPARCL_CALL_OPTION_ROW(
          operation, broadcast_options, verify, sparclVerifyFull, "a check of the call", kNo,
          {"differ in their settings", "SPARCL_VERIFY full", "SPARCL_VERIFY touched"}),
      SPARCL_CALL_OPTION_ROW(operation, broadcast_options, verify, sparclVerifyTouched,
                             "the default check by name", sparclSuccess, {}),
      SPARCL_CALL_OPTION_ROW(operation, broadcast_options, commit, sparclCommitStaged,
                             "another time to write", sparclSuccess, {}),
      SPARCL_CALL_OPTION_ROW(operation, broadcast_options, algorithm, "binary_tree",
                             "an algorithm of the call", kNo,
                             {"differ in their settings", "SPARCL_ALGO_BROADCAST binary_tree"}),
      SPARCL_CALL_OPTION_ROW(operation, broadcast_options, algorithm, "fast", "no algorithm", kBad,
                             {"options.algorithm = 'fast': expected auto, chain, "}),
      SPARCL_CALL_OPTION_ROW(operation, broadcast_options, verify, 4, "no check", kBad,
                             {"options.verify = 4 is no sparclVerify_t"}),
      SPARCL_CALL_OPTION_ROW(operation, broadcast_options, commit, 3, "no time to write", kBad,
                             {"options.commit = 3 is no sparclCommit_t"}),
      SPARCL_CALL_OPTION_ROW(operation, broadcast_options, size, 0, "options without a size", kBad,
                             {"options.size is 0: expected "}),
  };
}

std::vector<MismatchRow> update_option_rows() {
  return {
      SPARCL_CALL_OPTION_ROW(
          kUpdate, options, verify, sparclVerifyFull, "a check of the call", kNo,
          {"differ in their settings", "SPARCL_VERIFY full", "SPARCL_VERIFY touched"}),
      SPARCL_CALL_OPTION_ROW(kUpdate, options, algorithm, "binary_tree", "an algorithm of the call",
                             kNo,
                             {"differ in their settings", "SPARCL_ALGO_BROADCAST binary_tree"}),
      SPARCL_CALL_OPTION_ROW(kUpdate, options, algorithm, "fast", "no algorithm", kBad,
                             {"options.algorithm = 'fast': expected auto, chain, "}),
      SPARCL_CALL_OPTION_ROW(kUpdate, options, adopt, 3, "no toggle", kBad,
                             {"options.adopt = 3 is no sparclToggle_t"}),
  };
}

std::vector<MismatchRow> masked_option_rows() {
  return {
      SPARCL_CALL_OPTION_ROW(kMasked, masked_options, algorithm, "direct",
                             "an algorithm of the call", kNo,
                             {"differ in their settings", "SPARCL_ALGO_ALLREDUCE direct",
                              "SPARCL_ALGO_ALLREDUCE auto"}),
      SPARCL_CALL_OPTION_ROW(kMasked, masked_options, algorithm, "gather", "no algorithm", kBad,
                             {"options.algorithm = 'gather': expected auto, "}),
      SPARCL_CALL_OPTION_ROW(kMasked, masked_options, determinism, sparclDeterminismRuns,
                             "bits that the host path does not heed", sparclSuccess, {}),
      SPARCL_CALL_OPTION_ROW(kMasked, masked_options, outside, 2, "no outside", kBad,
                             {"options.outside = 2 is no sparclOutside_t"}),
      SPARCL_CALL_OPTION_ROW(kMasked, masked_options, size, 0, "options without a size", kBad,
                             {"options.size is 0: expected "}),
      {"a feedback of another count",
       kMasked,
       kMasked,
       Who::kAny,
       [](Arguments& a, Extras& extras, int) {
         a.feedback = extras.feedback_of(kMaskedCount + 1, sparclFloat32);
       },
       kBad,
       {"the feedback is of 901 elements"}},
  };
}

std::vector<MismatchRow> sparse_option_rows() {
  constexpr auto kSum = Operation::kSparseSum;
  return {
      SPARCL_CALL_OPTION_ROW(
          kSum, sparse_options, wire, sparclWireBfloat16, "wire", kNo,
          {"differ in their options", "float32, sum, wire 1)", "float32, sum, wire 0)"}),
      SPARCL_CALL_OPTION_ROW(kSum, sparse_options, determinism, sparclDeterminismRuns,
                             "determinism", kNo,
                             {"differ in their options", "float32, sum, determinism runs)",
                              "float32, sum, determinism canonical)"}),
      SPARCL_CALL_OPTION_ROW(kSum, sparse_options, determinism, sparclDeterminismCanonical,
                             "the default determinism by name", sparclSuccess, {}),
      SPARCL_CALL_OPTION_ROW(kSum, sparse_options, algorithm, "split", "an algorithm of the call",
                             kNo,
                             {"differ in their settings", "SPARCL_ALGO_ALLREDUCE_SPARSE split",
                              "SPARCL_ALGO_ALLREDUCE_SPARSE auto"}),
      SPARCL_CALL_OPTION_ROW(kSum, sparse_options, algorithm, "chain", "no algorithm", kBad,
                             {"options.algorithm = 'chain': expected auto, "}),
      SPARCL_CALL_OPTION_ROW(kSum, sparse_options, wire, 5, "no wire", kBad,
                             {"options.wire = 5 is no sparclWire_t"}),
      SPARCL_CALL_OPTION_ROW(kSum, sparse_options, size, 0, "options without a size", kBad,
                             {"options.size is 0: expected "}),
  };
}

}  // namespace

std::vector<MismatchRow> call_option_rows() {
  std::vector<MismatchRow> all = broadcast_option_rows(kDelta);
  for (auto rows : {broadcast_option_rows(kSparse), update_option_rows(), masked_option_rows(),
                    sparse_option_rows()})
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  return all;
}

}  // namespace sparcl::test
