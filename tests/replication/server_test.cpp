#include "src/replication/server.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "src/base/log.hpp"
#include "src/replication/listener.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

// For one life of it: no descriptor is to be had.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit none = before_;
    none.rlim_cur = 0;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

// As if the listener were readable.
void step(Server& server, double now) {
  std::vector<pollfd> entries;
  server.add_entries(entries, now);
  entries[0].revents = POLLIN;
  server.step(entries, now);
}

TEST(Server, SaysMoreAndMoreRarelyThatDescriptorsHaveRunOut) {
  if (!log_enabled(LogLevel::kWarn)) GTEST_SKIP() << "SPARCL_DEBUG turns warnings off";
  Result<Listener> listener = Listener::open("127.0.0.1:0", Reach::kThisMachine);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  const SessionContext context;
  Server server(std::move(listener->socket), context);
  const RawPeer peer = RawPeer::connect(listener->address);
  testing::internal::CaptureStderr();
  {
    const NoDescriptors limit;
    for (int i = 0; i < 400; ++i) step(server, 1000 + 0.25 * i);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2)
      << log;  // in 100 s: at once, and after 60 s
  EXPECT_NE(log.find("no connection can be taken: Too many open files\n"), std::string::npos)
      << log;
  EXPECT_NE(log.find("(240 times since it was last said)"), std::string::npos) << log;
  step(server, 1101);
  EXPECT_EQ(server.sessions().size(), 1U) << "it was waiting all the time";
}

TEST(RefusalFlood, IsOneLineAMinuteWithTheCountsByReason) {
  RefusalFlood flood;
  PeerCounts counts;
  std::vector<std::string> lines;
  for (int tick = 0; tick < 2400; ++tick) {  // 300 s, 8 ticks a second; the flood has 110 of them
    if (const auto line = flood.look(counts, 1000 + 0.125 * tick)) lines.push_back(*line);
    if (tick % 8 == 0) counts.count(RefusalReason::kMismatch);  // too few for a line
    for (int i = 0; i < 5 && tick < 880; ++i) counts.count(RefusalReason::kHandshake);
  }
  ASSERT_EQ(lines.size(), 3U) << "after 10 s, 70 s and 130 s";
  EXPECT_EQ(lines[0].find("410 connections were refused or ended within 10 s (handshake 400, "
                          "mismatch 10). "),
            0U)
      << lines[0];
  EXPECT_EQ(lines[1].find("2460 connections were refused or ended within 60 s (handshake 2400, "),
            0U)
      << lines[1];
  EXPECT_EQ(lines[2].find("1640 connections were refused or ended within 40 s (handshake 1600, "),
            0U)
      << lines[2];
}

}  // namespace
}  // namespace sparcl::replication
