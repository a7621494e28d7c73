#include "examples/language_model/rank_sharing.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>

#include "examples/language_model/rank_launcher.hpp"

namespace training {
namespace {

TEST(GatherFromAll, IsInRankOrderEverywhere) {
  run_as_threads(4, [](sparcl::Comm& comm) {
    const std::uint64_t mine[2] = {static_cast<std::uint64_t>(comm.rank()), 7};
    EXPECT_EQ(gather_from_all<std::uint64_t>(comm, mine),
              (std::vector<std::uint64_t>{0, 7, 1, 7, 2, 7, 3, 7}));
  });
}

TEST(ShareText, GivesRankZerosToAll) {
  run_as_threads(3, [](sparcl::Comm& comm) {
    EXPECT_EQ(share_text(comm, comm.rank() == 0 ? "some text" : ""), "some text");
  });
}

TEST(RunAsThreads, OneRanksFailureEndsAllAndIsTheOneReported) {
  try {
    run_as_threads(3, [](sparcl::Comm& comm) {
      if (comm.rank() == 1) throw std::invalid_argument("rank 1 broke");
      for (;;) (void)share_text(comm, "x");
    });
    FAIL() << "no error came out";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "rank 1 broke");
  }
}

}  // namespace
}  // namespace training
