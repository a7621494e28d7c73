#pragma once
// A few steps of a top-k all-reduce with error feedback, for tests of the public calls.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

inline std::vector<float> gradient_of(std::uint64_t seed, std::size_t count, int rank, int step) {
  std::mt19937_64 own(seed * 1'000'003 + static_cast<std::uint64_t>(rank) * 101 +
                      static_cast<std::uint64_t>(step));
  std::vector<float> gradient(count);
  for (float& value : gradient) value = static_cast<float>(static_cast<int>(own() % 2001) - 1000);
  return gradient;
}

// Whole numbers, summed exactly: after every step what the ranks gave is in the results and the
// residuals, which are taken out in the end by sending all of them. Empty if that is so, else what
// is wrong.
inline std::string check_top_k(sparclComm_t comm, sparclTopKMode_t mode, std::size_t count,
                               std::size_t k, std::uint64_t seed) {
  int rank = 0, ranks = 0;
  sparclCommUserRank(comm, &rank);
  sparclCommCount(comm, &ranks);
  sparclFeedback_t feedback = nullptr;
  if (sparclFeedbackCreate(&feedback, count, sparclFloat32) != sparclSuccess)
    return sparclGetLastError(nullptr);
  sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
  options.mode = mode;
  std::vector<double> given(count), got(count);
  std::string wrong;
  constexpr int kSteps = 3;
  for (int step = 0; step <= kSteps && wrong.empty(); ++step) {
    const bool is_last = step == kSteps;
    const std::vector<float> own =
        is_last ? std::vector<float>(count) : gradient_of(seed, count, rank, step);
    for (int other = 0; other < ranks && !is_last; ++other) {
      const std::vector<float> theirs = gradient_of(seed, count, other, step);
      for (std::size_t i = 0; i < count; ++i) given[i] += theirs[i];
    }
    std::vector<float> sums(count, 77);
    const sparclResult_t result =
        sparclAllReduceTopK(own.data(), sums.data(), count, is_last ? count : k, sparclFloat32,
                            sparclSum, feedback, &options, comm, nullptr);
    if (result != sparclSuccess) wrong = sparclGetLastError(comm);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      got[i] += sums[i];
      kept += sums[i] != 0;
    }
    if (mode == sparclTopKGlobal && !is_last && kept > k) wrong = "more than k sums were kept";
  }
  if (wrong.empty() && got != given) wrong = "results and residuals are not the inputs";
  sparclFeedbackDestroy(feedback);
  return wrong;
}

}  // namespace sparcl::test
