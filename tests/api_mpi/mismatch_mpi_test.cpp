// Ranks that call otherwise than the others: the whole table, ranks of mpirun, over whichever
// transport they were given.
#include <gtest/gtest.h>

#include "tests/mismatch/mismatch_run.hpp"
#include "tests/support/mpi_meeting.hpp"

namespace sparcl::test {
namespace {

TEST(MpiMismatch, EveryArgumentOfEveryCollectiveIsAgreedOn) {
  MpiMeeting meeting;
  if (meeting.size() == 1) GTEST_SKIP() << "takes two ranks";
  EXPECT_EQ(describe(run_mismatch_table(meeting)), "");
}

}  // namespace
}  // namespace sparcl::test
