// Ranks that meet by a unique id, and one of them cannot take part or differs: all know it at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Met {
  sparclResult_t result = sparclSuccess;
  std::string text;
};

Met meet(const sparclUniqueId& id, int nranks, int rank, double timeout_s) {
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  config.timeout_s = timeout_s;
  sparclComm_t comm = nullptr;
  Met met;
  met.result = sparclCommInitRank(&comm, nranks, id, rank, &config);
  if (met.result != sparclSuccess) met.text = sparclGetLastError(nullptr);
  sparclCommDestroy(comm);
  return met;
}

constexpr int kHasNoUcx = 77;  // an exit code

class MeetingByThreads : public testing::Test {
 protected:
  void SetUp() override {
    if (sparclGetUniqueId(&id_) == sparclUnsupported)
      GTEST_SKIP() << "skipped: this build has no UCX";
  }
  sparclUniqueId id_;
};

TEST_F(MeetingByThreads, ARankThatCannotTakePartTellsTheOthers) {
  struct Case {
    int rank;
    double timeout_s;
    const char* why;
  };
  for (const Case& wrong : {Case{1, -1, "config.timeout_s = -1"}, Case{7, 60, "rank 7 of 3"},
                            Case{-1, 60, "rank -1 of 3"}}) {
    ASSERT_EQ(sparclGetUniqueId(&id_), sparclSuccess);
    std::vector<Met> met(2);
    std::vector<std::thread> others;
    const auto begin = std::chrono::steady_clock::now();
    for (int rank : {0, 2})
      others.emplace_back(
          [&, rank] { met[static_cast<std::size_t>(rank / 2)] = meet(id_, 3, rank, 300); });
    const Met own = meet(id_, 3, wrong.rank, wrong.timeout_s);
    EXPECT_EQ(own.result, sparclInvalidArgument);
    EXPECT_THAT(own.text, HasSubstr(wrong.why));
    for (std::thread& other : others) other.join();
    for (const Met& other : met) {
      EXPECT_EQ(other.result, sparclRemoteError) << other.text;
      EXPECT_THAT(other.text, AllOf(HasSubstr("rank " + std::to_string(wrong.rank) + " (host"),
                                    HasSubstr("cannot take part"), HasSubstr(wrong.why)));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(100));  // they would wait for 300
  }
}

// UCX would end one of the processes. No id is made before fork(): its thread may hold a lock of
// UCX's then, and the child's copy of it stays locked.
TEST(MeetingOfProcesses, RanksWithOtherLanesAreRefused) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer lets no child of fork() start threads";
#endif
  int from_rank_0[2];
  ASSERT_EQ(::pipe(from_rank_0), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(200);
      ::setenv("UCX_TLS", rank == 0 ? "tcp" : "all", 1);
      ::close(from_rank_0[1 - (rank == 0 ? 1 : 0)]);  // the end of one is seen by the other
      sparclUniqueId id;
      if (rank == 0) {
        const sparclResult_t made = sparclGetUniqueId(&id);
        if (made != sparclSuccess) ::_exit(made == sparclUnsupported ? kHasNoUcx : 2);
        if (::write(from_rank_0[1], &id, sizeof id) != sizeof id) ::_exit(3);
      } else if (::read(from_rank_0[0], &id, sizeof id) != sizeof id) {
        ::_exit(kHasNoUcx);  // rank 0 has ended, and says why
      }
      const Met met = meet(id, 2, rank, 60);
      const bool is_told =
          met.result == sparclMismatch &&
          met.text.find("UCX_TLS is tcp on rank 0 and all on rank 1") != std::string::npos;
      if (!is_told) ::write(2, met.text.data(), met.text.size());
      ::_exit(is_told ? 0 : 1);
    }
    children.push_back(child);
  }
  ::close(from_rank_0[0]);
  ::close(from_rank_0[1]);
  std::vector<int> status(2, -1);
  for (std::size_t rank = 0; rank < 2; ++rank)
    ASSERT_EQ(::waitpid(children[rank], &status[rank], 0), children[rank]);
  if (status[0] == kHasNoUcx << 8) GTEST_SKIP() << "skipped: this build has no UCX";
  EXPECT_THAT(status, testing::Each(0)) << "as waitpid() gives it";
}

}  // namespace
}  // namespace sparcl::test
