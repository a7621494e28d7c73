// Whose word counts for those who wait for acknowledgements.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

class Acknowledgements : public ::testing::Test {
 protected:
  Acknowledgements() : publisher_(open_publisher(source_)) {
    EXPECT_TRUE(publisher_->publish(1).ok());
  }
  HeldVersion newest() const { return {1, source_.hash()}; }
  Hello claims_newest() const {
    Hello hello = hello_of(source_);
    hello.held = hello.tip = newest();
    return hello;
  }
  // All bytes are taken, and then acknowledged.
  Receipt take_all(RawPeer& peer) {
    const SmallModel other(3);
    peer.say(MessageType::kHello, hello_of(other));
    EXPECT_EQ(peer.hear(), MessageType::kWelcome);
    const Receipt receipt = parse_welcome(peer.link().content())->receipt;
    EXPECT_EQ(peer.hear(), MessageType::kOffer);
    peer.say(MessageType::kRequest,
             Request{parse_offer(peer.link().content())->commit.base_version, 1, 0});
    while (peer.hear() == MessageType::kChunk) {
    }
    EXPECT_EQ(peer.link().type(), MessageType::kCommit);
    peer.say(MessageType::kAck, Ack{AckStage::kHeld, newest(), true});
    EXPECT_TRUE(publisher_->wait(1, 1, 20).ok());
    return receipt;
  }
  void expect_nobody_counts() {
    EXPECT_EQ(publisher_->wait(1, 1, 0.3).code(), Code::kTimeout);
    EXPECT_EQ(publisher_->wait_staged(1, 1, 0).code(), Code::kTimeout);
    EXPECT_EQ(publisher_->count(1).holding + publisher_->count(1).left, 0);
  }

  SmallModel source_;
  std::unique_ptr<Publisher> publisher_;
};

TEST_F(Acknowledgements, AClaimAloneDoesNotCount) {
  RawPeer peer = RawPeer::connect(publisher_->address());
  peer.say(MessageType::kHello, claims_newest());
  ASSERT_EQ(peer.hear(), MessageType::kWelcome);
  for (const AckStage stage : {AckStage::kStaged, AckStage::kHeld})
    peer.say(MessageType::kAck, Ack{stage, newest(), true});
  expect_nobody_counts();
  peer.say(MessageType::kBye, std::span<const std::byte>());
  EXPECT_TRUE(peer.is_dropped());
  expect_nobody_counts();
}

TEST_F(Acknowledgements, NoVersionThatWasNotSentCounts) {
  RawPeer peer = RawPeer::connect(publisher_->address());
  (void)take_all(peer);
  source_.step(2);
  ASSERT_TRUE(publisher_->publish(2).ok());
  ASSERT_EQ(peer.hear(), MessageType::kOffer);
  peer.say(MessageType::kAck,
           Ack{AckStage::kHeld, {2, source_.hash()}, true});  // it was offered, and not asked for
  EXPECT_EQ(publisher_->wait(2, 1, 0.3).code(), Code::kTimeout);
}

TEST_F(Acknowledgements, OneWhoseConnectionBreaksCountsOnByItsReceipt) {
  Receipt receipt;
  {
    RawPeer peer = RawPeer::connect(publisher_->address());
    receipt = take_all(peer);
  }
  Hello again = claims_newest();
  again.receipt.fill(std::byte{1});  // somebody else's
  RawPeer other = RawPeer::connect(publisher_->address());
  other.say(MessageType::kHello, again);
  ASSERT_EQ(other.hear(), MessageType::kWelcome);
  expect_nobody_counts();
  again.receipt = receipt;
  RawPeer same = RawPeer::connect(publisher_->address());
  same.say(MessageType::kHello, again);
  ASSERT_EQ(same.hear(), MessageType::kWelcome);
  EXPECT_EQ(publisher_->wait(1, 1, 20).message(), "");
}

// From another address of this host.
RawPeer connect_from_elsewhere(const std::string& address) {
  net::NetAddress from = net::loopback_address();
  from.ip[3] = std::byte{2};
  const net::SocketAddress own = to_socket_address(from),
                           to = net::to_socket_address(
                               net::resolve(*net::parse_host_port(address))->front());
  net::Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.fd(), own.get(), own.bytes), 0);
  EXPECT_EQ(::connect(socket.fd(), to.get(), to.bytes), 0);
  EXPECT_EQ(::fcntl(socket.fd(), F_SETFL, O_NONBLOCK), 0);
  return RawPeer(std::move(socket));
}

TEST_F(Acknowledgements, ANameTakesNoDepartureAway) {
  SmallModel copy(7);
  {
    const auto replica = open_replica(copy, publisher_->address());
    ASSERT_TRUE(replica->next(20).ok());
    ASSERT_EQ(publisher_->wait(1, 1, 20).message(), "");
  }
  Hello hello = claims_newest();
  hello.name = ReplicaName().text();  // as the replica that has left
  RawPeer peer = connect_from_elsewhere(publisher_->address());
  peer.say(MessageType::kHello, hello);
  ASSERT_EQ(peer.hear(), MessageType::kWelcome);
  EXPECT_EQ(publisher_->wait(1, 1, 1).message(), "");
}

TEST_F(Acknowledgements, StatusSaysThatTheyAreAdvisory) {
  EXPECT_NE(publisher_->status().find(R"("acknowledgements":"advisory")"), std::string::npos)
      << publisher_->status();
}

}  // namespace
}  // namespace sparcl::replication
