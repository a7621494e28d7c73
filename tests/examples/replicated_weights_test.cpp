#include "examples/replicate_training/replicated_weights.hpp"

#include <gtest/gtest.h>

#include "examples/language_model/rank_launcher.hpp"

namespace training {
namespace {

TEST(ReplicatedWeights, FollowRankZero) {
  const ParameterLayout layout({5, 32, 1, 1, 4});
  run_as_threads(3, [&](sparcl::Comm& comm) {
    ReplicatedWeights weights(comm, layout);
    for (std::uint16_t version = 1; version <= 3; ++version) {
      if (comm.rank() == 0)
        weights.values()[version].bits = static_cast<std::uint16_t>(0x3F80 + version);
      const sparcl::Report report = weights.update(version);
      EXPECT_EQ(report.nnz_out, version == 1 ? layout.count() : 1);
      EXPECT_EQ(weights.values()[version].bits, 0x3F80 + version);
    }
  });
}

}  // namespace
}  // namespace training
