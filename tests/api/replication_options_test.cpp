// Options of a subscriber that count before the settings.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace sparcl::test {
namespace {

// Sockets of this process that others may connect to.
int listening_sockets() {
  int found = 0;
  for (int fd = 0; fd < ::getdtablesize() && fd < 4096; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0) found += listens;
  }
  return found;
}

// A replica that passes updates on has a port of its own.
bool has_own_port(sparclToggle_t relay) {
  std::vector<float> source(1'000, 1.0f), held(1'000);
  State state, copy;
  state.add("w", source, {1'000});
  copy.add("w", held, {1'000});
  Publisher publisher(state, {.listen = "127.0.0.1:0"});
  publisher.publish(1);
  const int before = listening_sockets();
  Subscriber::Options options;
  options.relay = relay;
  Subscriber subscriber(copy, publisher.address(), options);
  EXPECT_EQ(subscriber.next(20), 1u) << subscriber.reason();
  EXPECT_EQ(held, source);
  return listening_sockets() > before;
}

TEST(SubscriberOptions, RelayCountsBeforeTheSetting) {
  EXPECT_TRUE(has_own_port(sparclDefault));
  EXPECT_FALSE(has_own_port(sparclOff));
  setenv("SPARCL_RELAY", "off", 1);
  EXPECT_FALSE(has_own_port(sparclDefault));
  EXPECT_TRUE(has_own_port(sparclOn));
  unsetenv("SPARCL_RELAY");
}

}  // namespace
}  // namespace sparcl::test
