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

}  // namespace
}  // namespace sparcl::replication
