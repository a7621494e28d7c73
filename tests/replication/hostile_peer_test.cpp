// Messages of rogues, of unauthenticated connections and of broken peers: no other peer notices,
// and nothing is kept.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/replication/query.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

TEST(HostilePeer, GarbageIsDroppedAndReplicasDoNotNotice) {
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  const auto replica = open_replica(copy, publisher->address());
  ASSERT_TRUE(replica->next(20).ok());
  std::mt19937_64 random(5);
  for (int i = 0; i < 50; ++i) {
    RawPeer peer = RawPeer::connect(publisher->address());
    std::vector<std::byte> noise(20 + random() % 5000);
    for (std::byte& each : noise) each = std::byte(static_cast<std::uint8_t>(random()));
    peer.send_bytes(noise);
    EXPECT_TRUE(peer.is_dropped());
  }
  source.step(1);
  ASSERT_TRUE(publisher->publish(2).ok());
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST(HostilePeer, SlowUnauthenticatedConnectionsAreDroppedAndHoldNoDescriptors) {
  SmallModel source;
  PublisherOptions options = local_options();
  options.silence_s = 0.5;
  const auto publisher = open_publisher(source, options);
  const int before = open_descriptors();
  {
    std::vector<RawPeer> unauthenticated;
    const auto head = serialise(MessageHead{MessageType::kHello, 1000, 0});
    for (int i = 0; i < 100; ++i) {
      unauthenticated.push_back(RawPeer::connect(publisher->address()));
      if (i % 2 == 0) unauthenticated.back().send_bytes(head);  // and no more
    }
    for (RawPeer& each : unauthenticated) EXPECT_TRUE(each.is_dropped());
  }
  for (int i = 0; i < 100 && open_descriptors() > before; ++i) usleep(50'000);
  EXPECT_LE(open_descriptors(), before);
}

TEST(HostilePeer, MessagesOutOfPlaceEndTheConnection) {
  SmallModel source;
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer early = RawPeer::connect(publisher->address());
  early.say(MessageType::kAck, Ack{AckStage::kHeld, {1, source.hash()}});
  EXPECT_TRUE(early.is_dropped());
  EXPECT_EQ(publisher->count(1).holding, 0);

  RawPeer twice = RawPeer::connect(publisher->address());
  twice.say(MessageType::kHello, hello_of(source));
  EXPECT_EQ(twice.hear(), MessageType::kWelcome);
  twice.say(MessageType::kHello, hello_of(source));
  EXPECT_TRUE(twice.is_dropped());

  RawPeer greedy = RawPeer::connect(publisher->address());
  SmallModel other(3);
  greedy.say(MessageType::kHello, hello_of(other));
  EXPECT_EQ(greedy.hear(), MessageType::kWelcome);
  ASSERT_EQ(greedy.hear(), MessageType::kOffer);
  const Result<Offer> offer = parse_offer(greedy.link().content());
  ASSERT_TRUE(offer.ok());
  EXPECT_TRUE(offer->commit.is_anchor);
  greedy.say(MessageType::kRequest, Request{{0, 1}, offer->commit.stream_bytes + 1});
  EXPECT_TRUE(greedy.is_dropped());
}

TEST(HostilePeer, AQuestionHasNoContent) {
  SmallModel source;
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  for (const auto& [question, answer] :
       {std::pair(MessageType::kStatusQuery, MessageType::kStatusReply),
        std::pair(MessageType::kModelQuery, MessageType::kModelReply)}) {
    RawPeer right = RawPeer::connect(publisher->address());
    right.say(question, std::span<const std::byte>());
    EXPECT_EQ(right.hear(), answer);
    RawPeer wrong = RawPeer::connect(publisher->address());
    const std::byte left_over{1};
    wrong.say(question, std::span(&left_over, 1));
    EXPECT_TRUE(wrong.is_dropped());
  }
}

TEST(HostilePeer, OneThatReadsNothingCostsNoMemoryAndHoldsNobodyUp) {
  SmallModel source, copy(1);
  PublisherOptions options = local_options();
  options.silence_s = 1;
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer deaf = RawPeer::connect(publisher->address());
  deaf.say(MessageType::kHello, hello_of(copy));
  const auto replica = open_replica(copy, publisher->address());
  for (std::uint64_t version = 2; version <= 20; ++version) {
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
    ASSERT_TRUE(replica->next(20).ok());
  }
  while (replica->versions().held < 20) ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(copy.hash(), source.hash());
  for (int i = 0; i < 200 && publisher->count(0).connected > 1; ++i) usleep(50'000);
  EXPECT_EQ(publisher->count(0).connected, 1);
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(HostilePeer, DamageIsNoLargerThanTheTensors) {
  SmallModel source;
  PublisherOptions options = local_options();
  options.silence_s = 100;  // it is not dropped for that
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  Hello hello = hello_of(source);
  hello.damaged = true;
  RawPeer peer = RawPeer::connect(publisher->address());
  peer.say(MessageType::kHello, hello);
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  peer.send_bytes(serialise(MessageHead{MessageType::kDamage, 1 << 20, 0}));
  EXPECT_TRUE(peer.is_dropped());
}

// By what its head claims a message costs nothing.
TEST(MessageLink, MemoryComesWithTheBytes) {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  for (const bool is_skipped : {false, true}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    MessageLink from(net::Socket{ends[0]}), to(net::Socket{ends[1]});
    std::vector<std::byte> content(kBytes);
    std::mt19937_64 random(7);
    for (std::size_t i = 0; i < kBytes; i += 1000)
      content[i] = std::byte(static_cast<std::uint8_t>(random()));
    from.queue(MessageType::kDamage, std::span<const std::byte>(content));
    to.allow(MessageType::kDamage, kBytes);
    if (is_skipped) to.skip(MessageType::kDamage);
    const auto nowhere = [](const ChunkHead&, std::size_t) { return Buffer(); };
    ASSERT_TRUE(from.flush());  // what the socket takes
    const std::size_t before = resident_bytes();
    MessageLink::Progress progress = to.receive(nowhere);
    ASSERT_EQ(progress, MessageLink::Progress::kMore);
    EXPECT_LT(resident_bytes(), before + kBytes / 2);
    while (progress == MessageLink::Progress::kMore) {
      ASSERT_TRUE(from.flush());
      progress = to.receive(nowhere);
    }
    ASSERT_EQ(progress, MessageLink::Progress::kMessage) << to.why().message();
    if (is_skipped) {
      EXPECT_LT(to.content().size(), kBytes / 2);
    } else {
      EXPECT_TRUE(std::ranges::equal(to.content(), content));
    }
  }
}

TEST(HostilePeer, AsManyReplicasAsDescriptorsAllowAreServedAndOthersAreToldWhy) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{140, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_TRUE(publisher->publish(1).ok());
  std::vector<RawPeer> replicas;  // 140 less 64 for the process, and 64 unauthenticated
  for (int i = 0; i < 12; ++i) {
    replicas.push_back(RawPeer::connect(publisher->address()));
    replicas.back().say(MessageType::kHello, hello_of(copy));
    ASSERT_EQ(replicas.back().hear(), MessageType::kWelcome);
    ASSERT_EQ(replicas.back().hear(), MessageType::kOffer);
    // One that has asked for bytes has a second before others may have its slot.
    replicas.back().say(MessageType::kRequest, Request{{0, 1}, 0});
  }
  RawPeer late = RawPeer::connect(publisher->address());
  late.say(MessageType::kHello, hello_of(source));
  ASSERT_EQ(late.hear(), MessageType::kRefusal);
  const Result<Refusal> refusal = parse_refusal(late.link().content());
  ASSERT_TRUE(refusal.ok());
  EXPECT_EQ(refusal->text,
            "it serves 12 replicas already, as many as its descriptors allow: ulimit -n");
  replicas.pop_back();
  for (int i = 0; i < 200 && publisher->count(0).connected > 11; ++i) usleep(20'000);
  RawPeer next = RawPeer::connect(publisher->address());
  next.say(MessageType::kHello, hello_of(source));
  EXPECT_EQ(next.hear(), MessageType::kWelcome);
}

// Says that it is alive, and asks for nothing, or takes nothing of what it has asked for.
TEST(HostilePeer, OneThatTakesNothingIsDroppedThoughItIsAlive) {
  SmallModel source(0, 8'000'000), copy(1, 8'000'000);
  source.step(1, 8'000'000);
  PublisherOptions options = local_options();
  options.silence_s = 4;
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer mute = RawPeer::connect(publisher->address()),
          deaf = RawPeer::connect(publisher->address());
  for (RawPeer* peer : {&mute, &deaf}) {
    peer->say(MessageType::kHello, hello_of(copy));
    ASSERT_EQ(peer->hear(), MessageType::kWelcome);
    ASSERT_EQ(peer->hear(), MessageType::kOffer);
  }
  deaf.say(MessageType::kRequest, Request{{0, 1}, 0});
  RawPeer held = RawPeer::connect(publisher->address());  // as one whose user does not call next()
  Hello hello = hello_of(copy);
  hello.ahead = 2;
  held.say(MessageType::kHello, hello);
  ASSERT_EQ(held.hear(), MessageType::kWelcome);
  ASSERT_EQ(publisher->count(0).connected, 3);
  for (int i = 0; i < 60 && publisher->count(0).connected > 1; ++i) {
    for (RawPeer* peer : {&mute, &deaf, &held}) peer->say(MessageType::kAlive, Alive{0});
    usleep(250'000);
  }
  EXPECT_EQ(publisher->count(0).connected, 1);
  EXPECT_FALSE(held.is_dropped(0.1));
}

// They ask for a large answer, and do not read it.
TEST(HostilePeer, AnswersThatNobodyReadsAreFew) {
  SmallModel source;
  PublisherOptions options = local_options();
  options.description.resize(std::size_t{16} << 20);
  const auto publisher = open_publisher(source, options);
  const std::size_t before = resident_bytes();
  const int descriptors = open_descriptors();
  std::vector<RawPeer> askers;
  for (int i = 0; i < 100; ++i) {
    askers.push_back(RawPeer::connect(publisher->address()));
    askers.back().link().queue(MessageType::kModelQuery, std::span<const std::byte>());
    (void)askers.back().link().flush();
  }
  usleep(500'000);
  EXPECT_LE(open_descriptors() - descriptors, 100 + 64);
  EXPECT_LT(resident_bytes() - before, std::size_t{256} << 20);
}

TEST(Query, TellsWhatIsPublishedAndWhoHoldsIt) {
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(5).ok());
  const auto replica = open_replica(copy, publisher->address());
  ASSERT_TRUE(replica->next(20).ok());
  ASSERT_TRUE(publisher->wait(5, 1, 20).ok());
  const Result<std::string> status = query_status(publisher->address(), 20);
  ASSERT_TRUE(status.ok()) << status.status().message();
  const nlohmann::json report = nlohmann::json::parse(*status);
  EXPECT_EQ(report["version"], 5);
  EXPECT_EQ(report["hash"], to_hex(source.hash()));
  ASSERT_EQ(report["replicas"].size(), 1U);
  EXPECT_EQ(report["replicas"][0]["version"], 5);
  EXPECT_EQ(report["replicas"][0]["lag"], 0);
  EXPECT_EQ(report["replicas"][0]["state"], "current");
  EXPECT_EQ(report["replicas_left_out"], 0);
  RawPeer liar = RawPeer::connect(publisher->address());
  liar.say(MessageType::kHello, hello_with({999, source.hash()}, source.view().schema_hash));
  ASSERT_EQ(liar.hear(), MessageType::kWelcome);
  const nlohmann::json with_liar = nlohmann::json::parse(publisher->status());
  ASSERT_EQ(with_liar["replicas"].size(), 2U);
  EXPECT_TRUE(with_liar["replicas"][1]["version"].is_null()) << "it was never published";
  EXPECT_TRUE(with_liar["replicas"][1]["lag"].is_null());
  const Result<ModelReply> model = query_model(publisher->address(), 20);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->model_id, "m");
  EXPECT_EQ(query_status("127.0.0.1:1", 5).status().code(), Code::kRemoteError);
}

TEST(HostilePeer, NamesOfAnyLengthLeaveTheReportWhole) {
  constexpr std::size_t kPeers = 150;
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  Hello hello = hello_of(copy);
  hello.name.assign(4096, '"');
  std::vector<RawPeer> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    peers.push_back(RawPeer::connect(publisher->address()));
    peers.back().say(MessageType::kHello, hello);
    ASSERT_EQ(peers.back().hear(), MessageType::kWelcome);
  }
  const Result<std::string> status = query_status(publisher->address(), 20);
  ASSERT_TRUE(status.ok()) << status.status().message();
  const nlohmann::json report = nlohmann::json::parse(*status, nullptr, false);
  ASSERT_TRUE(report.is_object()) << status->size() << " bytes";
  EXPECT_EQ(report["replicas_connected"], kPeers);
  EXPECT_EQ(report["replicas"].size(), kPeers);
}

}  // namespace
}  // namespace sparcl::replication
