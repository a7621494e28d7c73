#pragma once
// Calls of top-k that are made by two ways, and the feedbacks of each.

#include <bit>
#include <vector>

#include "tests/fakes/nccl/gpu_ranks.hpp"
#include "tests/fakes/nccl/top_k_values.hpp"

namespace sparcl::test {

struct Way {
  sparclDataType_t type = sparclFloat32;
  sparclRedOp_t op = sparclSum;
  sparclTopKMode_t mode = sparclTopKUnion;
  sparclWire_t wire = sparclWireSame;
  bool has_feedback = true;
  sparclResidual_t residual = sparclResidualSent;
  std::vector<std::uint64_t> tensors = {};
};

inline sparclTopKOptions_t options_of(const Way& way) {
  sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
  options.mode = way.mode;
  options.wire = way.wire;
  options.residual = way.residual;
  if (!way.tensors.empty()) {
    options.tensors = way.tensors.data();
    options.tensor_count = way.tensors.size();
  }
  return options;
}

// Two feedbacks, of the same calls by either way.
struct Feedbacks {
  Feedbacks(const Way& way, std::size_t count) {
    if (!way.has_feedback) return;
    EXPECT_EQ(sparclFeedbackCreate(&host, count, way.type), sparclSuccess);
    EXPECT_EQ(sparclFeedbackCreate(&device, count, way.type), sparclSuccess);
  }
  ~Feedbacks() {
    EXPECT_EQ(sparclFeedbackDestroy(host), sparclSuccess);
    EXPECT_EQ(sparclFeedbackDestroy(device), sparclSuccess);
  }
  Feedbacks(const Feedbacks&) = delete;
  sparclFeedback_t host = nullptr, device = nullptr;

  void compare_residuals() const {
    if (host == nullptr) return;
    EXPECT_EQ(bytes_of(device), bytes_of(host)) << "residuals";
  }
  void compare() const {
    if (host == nullptr) return;
    compare_residuals();
    const sparclFeedbackStats_t ours = stats_of(device), theirs = stats_of(host);
    EXPECT_EQ(ours.calls, theirs.calls);
    EXPECT_EQ(ours.selected, theirs.selected);
    EXPECT_EQ(ours.sent, theirs.sent);
    for (double sparclFeedbackStats_t::*each :
         {&sparclFeedbackStats_t::sent_mass, &sparclFeedbackStats_t::residual_l2,
          &sparclFeedbackStats_t::dropped_l2, &sparclFeedbackStats_t::threshold,
          &sparclFeedbackStats_t::threshold_drift})
      EXPECT_EQ(std::bit_cast<std::uint64_t>(ours.*each),
                std::bit_cast<std::uint64_t>(theirs.*each));
  }

  static std::vector<std::byte> bytes_of(sparclFeedback_t feedback) {
    const void* residual = nullptr;
    std::size_t count = 0;
    sparclDataType_t type{};
    EXPECT_EQ(sparclFeedbackGetResidual(feedback, &residual, &count, &type), sparclSuccess);
    const std::size_t width =
        type == sparclFloat64 || type == sparclInt64 || type == sparclUint64 ? 8 : 4;
    const auto* const bytes = static_cast<const std::byte*>(residual);
    return {bytes, bytes + count * width};
  }
  static sparclFeedbackStats_t stats_of(sparclFeedback_t feedback) {
    sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
    EXPECT_EQ(sparclFeedbackStats(feedback, &stats), sparclSuccess);
    return stats;
  }
};

template <class T>
std::vector<T> by_host(sparclComm_t comm, const Way& way, const std::vector<T>& sent, std::size_t k,
                       sparclFeedback_t feedback,
                       sparclDeterminism_t determinism = sparclDeterminismDefault) {
  sparclTopKOptions_t options = options_of(way);
  options.determinism = determinism;
  std::vector<T> received(sent.size(), T{9});
  EXPECT_EQ(sparclAllReduceTopK(sent.data(), received.data(), sent.size(), k, way.type, way.op,
                                feedback, &options, comm, nullptr),
            sparclSuccess)
      << sparclGetLastError(comm);
  return received;
}

template <class T>
sparclResult_t on_stream(sparclComm_t comm, const Way& way, const OnDevice<T>& from,
                         const OnDevice<T>& to, std::size_t count, std::size_t k,
                         sparclFeedback_t feedback, sparclStream_t stream,
                         sparclDeterminism_t determinism = sparclDeterminismDefault) {
  sparclTopKOptions_t options = options_of(way);
  options.determinism = determinism;
  return sparclAllReduceTopK(from.get(), to.get(), count, k, way.type, way.op, feedback, &options,
                             comm, stream);
}

}  // namespace sparcl::test
