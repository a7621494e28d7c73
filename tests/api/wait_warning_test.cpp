// A wait for those who are missing says whom it waits for, long before it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

// Standard error goes to a file meanwhile, which can be read while others write to it.
class StandardError {
 public:
  StandardError() : before_(::dup(2)) {
    const int file = ::mkstemp(path_.data());
    ::dup2(file, 2);
    ::close(file);
  }
  ~StandardError() {
    ::dup2(before_, 2);
    ::close(before_);
    ::unlink(path_.c_str());
  }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool comes_to_say(const std::string& what) const {
    for (int i = 0; i < 6000 && text().find(what) == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return text().find(what) != std::string::npos;
  }

 private:
  std::string path_ = ::testing::TempDir() + "sparcl-stderr-XXXXXX";
  int before_;
};

class WaitWarnings : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("SPARCL_WAIT_WARNING_S", "0.02", 1); }
  void TearDown() override { ::unsetenv("SPARCL_WAIT_WARNING_S"); }
};

TEST_F(WaitWarnings, OfACallNameTheRankThatIsWaitedFor) {
  ThreadRanks party(2);
  const StandardError shown;
  std::vector<float> mine(10), others(10);
  std::thread waiting([&] {
    EXPECT_EQ(sparclBroadcastDelta(mine.data(), nullptr, 10, sparclFloat32, 0, nullptr,
                                   party.comm(0), nullptr),
              sparclSuccess);
  });
  EXPECT_TRUE(shown.comes_to_say("s for rank 1 (")) << shown.text();
  EXPECT_EQ(sparclBroadcastDelta(others.data(), nullptr, 10, sparclFloat32, 0, nullptr,
                                 party.comm(1), nullptr),
            sparclSuccess);
  waiting.join();
  EXPECT_NE(shown.text().find("rank 0 has waited "), std::string::npos) << shown.text();
}

TEST_F(WaitWarnings, OfRequestsOfTwoCommunicatorsNameTheRankThatIsWaitedFor) {
  ThreadRanks first(2), second(2);
  const StandardError shown;
  const auto sum = [&](int rank) {
    std::vector<float> a(10), b(10);
    sparclRequest_t requests[2] = {nullptr, nullptr};
    EXPECT_EQ(sparclIBroadcastDelta(a.data(), nullptr, 10, sparclFloat32, 0, nullptr,
                                    first.comm(rank), nullptr, &requests[0]),
              sparclSuccess);
    EXPECT_EQ(sparclIBroadcastDelta(b.data(), nullptr, 10, sparclFloat32, 0, nullptr,
                                    second.comm(rank), nullptr, &requests[1]),
              sparclSuccess);
    EXPECT_EQ(sparclWaitAll(2, requests, nullptr), sparclSuccess);
  };
  std::thread waiting(sum, 0);
  EXPECT_TRUE(shown.comes_to_say("s for rank 1 (")) << shown.text();
  sum(1);
  waiting.join();
}

TEST_F(WaitWarnings, OfAMeetingNameTheRanksThatAreMissing) {
  sparclUniqueId id;
  if (sparclGetUniqueId(&id) != sparclSuccess) GTEST_SKIP() << "a build without UCX";
  const StandardError shown;
  const auto meet = [&](int rank) {
    sparclComm_t comm = nullptr;
    EXPECT_EQ(sparclCommInitRank(&comm, 2, id, rank, nullptr), sparclSuccess)
        << sparclGetLastError(nullptr);
    EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
  };
  std::thread waiting(meet, 1);
  EXPECT_TRUE(shown.comes_to_say("1 of 2 ranks are here, missing: 0")) << shown.text();
  meet(0);
  waiting.join();
}

TEST_F(WaitWarnings, OfThePublisherAndASubscriberSayWhatIsMissing) {
  std::vector<float> source(10, 2), held(10);
  State state, replica;
  state.add("w", source, {10});
  replica.add("w", held, {10});
  Publisher publisher(state);
  const StandardError shown;
  publisher.publish(1);
  EXPECT_FALSE(publisher.wait(1, 1, 0.2));
  EXPECT_TRUE(shown.comes_to_say("sparclPublisherWait has waited ")) << shown.text();
  EXPECT_TRUE(shown.comes_to_say("0 of 1 replicas hold version 1")) << shown.text();
  Subscriber subscriber(replica, publisher.address());
  while (!subscriber.next(20)) {
  }
  EXPECT_FALSE(subscriber.next(0.2)) << "there is no second version";
  EXPECT_TRUE(shown.comes_to_say("sparclSubscriberNext has waited ")) << shown.text();
}

}  // namespace
}  // namespace sparcl::test
