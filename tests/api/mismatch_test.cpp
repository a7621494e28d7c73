// Ranks that call otherwise than the others: the whole table, ranks as threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/mismatch/mismatch_run.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::test {
namespace {

class Mismatch : public testing::TestWithParam<int> {};

TEST_P(Mismatch, EveryArgumentOfEveryCollectiveIsAgreedOn) {
  if (std::getenv("SPARCL_TEST_UNIQUE_ID") != nullptr)
    GTEST_SKIP() << "ranks are processes then: tests/mismatch";
  std::vector<std::string> wrong(static_cast<std::size_t>(GetParam()));
  ThreadParty party(GetParam());
  party.run([&](Meeting& meeting) {
    wrong[static_cast<std::size_t>(meeting.rank())] = describe(run_mismatch_table(meeting));
  });
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

// tests/mismatch has other counts, as processes.
INSTANTIATE_TEST_SUITE_P(Ranks, Mismatch,
                         testing::ValuesIn(long_tier() ? std::vector{2, 3, 4, 8}
                                                       : std::vector{2, 4}));

}  // namespace
}  // namespace sparcl::test
