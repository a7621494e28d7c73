// A desk and peers that are no workers: each is refused by name, and the others go on.
#include "src/elastic/root_desk.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "src/replication/query.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::elastic {
namespace {

using replication::MessageType;
using replication::RawPeer;

constexpr std::uint64_t kElements = 100'000;

sparse::BlockRun run_of_model() {
  sparse::BlockRun run;
  run.blocks = 2;
  return run;
}

struct Desk {
  explicit Desk(double silence_s = 5) {
    DeskOptions options;
    options.model_id = "m";
    options.schema_hash = {1, 2};
    options.run = run_of_model();
    options.count = kElements;
    options.held_bytes = 1 << 20;
    options.silence_s = silence_s;
    options.results = "127.0.0.1:1";
    Result<replication::Listener> listener =
        replication::Listener::open("", replication::Reach::kThisMachine);
    desk = std::move(
        *RootDesk::create(kernels::cpu_kernels(), options, std::move(*listener), {}));
  }
  RawPeer connect() const { return RawPeer::connect(desk->address(), {}); }
  RawPeer enrolled(aggregate::WorkerId worker) const {
    RawPeer peer = connect();
    peer.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "m", {1, 2}, worker, 5000, "a test"});
    EXPECT_EQ(peer.hear(), MessageType::kEnrolled);
    return peer;
  }
  std::unique_ptr<RootDesk> desk;
};

Packed packed_entries(std::uint64_t first, std::uint64_t round) {
  BufferPool buffers(0);
  const std::vector<std::uint64_t> indices{first, first + 7};
  const std::vector<float> values{1, 2};
  Packed packed = *pack(buffers, kernels::cpu_kernels(), run_of_model(),
                        {DataType::kFloat32, DataType::kFloat32}, indices,
                        reinterpret_cast<const std::byte*>(values.data()));
  packed.offered.round = round;
  return packed;
}

void expect_refusal(RawPeer& peer, const std::string& part) {
  ASSERT_EQ(peer.hear(), MessageType::kRefusal);
  const Result<replication::Refusal> refusal = replication::parse_refusal(peer.link().content());
  ASSERT_TRUE(refusal.ok());
  EXPECT_NE(refusal->text.find(part), std::string::npos) << refusal->text;
  EXPECT_TRUE(peer.is_dropped());
}

void send_all(RawPeer& peer, const Packed& packed) {
  peer.say(MessageType::kContribution, packed.offered);
  ASSERT_EQ(peer.hear(), MessageType::kWanted);
  peer.link().queue_chunk({packed.offered.round, 0}, packed.bytes);
  (void)peer.link().flush();
}

// A worker contributes, and the round has it.
void expect_service(const Desk& own, RawPeer& worker, std::uint64_t round) {
  send_all(worker, packed_entries(5, round));
  ASSERT_EQ(worker.hear(), MessageType::kFate);
  EXPECT_EQ(parse_fate(worker.link().content())->kind, aggregate::Answer::Kind::kListed);
  for (int i = 0; i < 100; ++i) {
    const RootDesk::Turn turn = own.desk->wait(0.1);
    if (turn.is_closed) break;
  }
  own.desk->committed();
  ASSERT_EQ(worker.hear(), MessageType::kFate);
  EXPECT_EQ(parse_fate(worker.link().content())->kind, aggregate::Answer::Kind::kCommitted);
}

TEST(ContributionDesk, PeersThatAreNoWorkersAreRefusedByName) {
  const Desk own;
  RawPeer other = own.connect();
  other.say(MessageType::kEnroll, Enroll{kWorkerProtocol + 1, "m", {1, 2}, 1, 5000, "a test"});
  expect_refusal(other, "version 3 of the protocol of workers");
  RawPeer model = own.connect();
  model.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "n", {1, 2}, 1, 5000, "a test"});
  expect_refusal(model, "model \"n\"");
  RawPeer tensors = own.connect();
  tensors.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "m", {1, 3}, 1, 5000, "a test"});
  expect_refusal(tensors, "tensors differ");
  RawPeer hello = own.connect();
  hello.say(MessageType::kHello, replication::Hello{});
  expect_refusal(hello, "out of place");
  RawPeer worker = own.enrolled(7);
  expect_service(own, worker, 1);
}

TEST(ContributionDesk, WrongContributionsEndTheirConnectionAlone) {
  const Desk own;
  RawPeer worker = own.enrolled(7);

  RawPeer large = own.enrolled(8);
  Packed packed = packed_entries(5, 1);
  packed.offered.bytes = std::uint64_t{1} << 40;
  large.say(MessageType::kContribution, packed.offered);
  expect_refusal(large, "at most");

  RawPeer forged = own.enrolled(9);
  packed = packed_entries(5, 1);
  packed.offered.digest[0] ^= std::byte{1};
  send_all(forged, packed);
  expect_refusal(forged, "SHA-256");

  RawPeer outside = own.enrolled(10);
  packed = packed_entries(kElements, 1);
  send_all(outside, packed);
  expect_refusal(outside, "no part of the model");

  RawPeer unasked = own.enrolled(11);
  packed = packed_entries(5, 1);
  unasked.link().queue_chunk({1, 0}, packed.bytes);
  (void)unasked.link().flush();
  expect_refusal(unasked, "not offered");

  RawPeer twice = own.enrolled(12);
  twice.say(MessageType::kContribution, packed.offered);
  twice.say(MessageType::kContribution, packed.offered);
  ASSERT_EQ(twice.hear(), MessageType::kWanted);
  expect_refusal(twice, "while another one comes");

  expect_service(own, worker, 1);
}

TEST(ContributionDesk, AContributionThatComesAgainIsKnown) {
  const Desk own;
  RawPeer worker = own.enrolled(7);
  expect_service(own, worker, 1);
  worker.say(MessageType::kContribution, packed_entries(5, 1).offered);
  ASSERT_EQ(worker.hear(), MessageType::kFate);  // its bytes are not wanted again
  EXPECT_EQ(parse_fate(worker.link().content())->kind, aggregate::Answer::Kind::kCommitted);
  worker.say(MessageType::kContribution, packed_entries(5, 9).offered);
  ASSERT_EQ(worker.hear(), MessageType::kFate);
  EXPECT_EQ(parse_fate(worker.link().content())->kind, aggregate::Answer::Kind::kEarly);
}

TEST(ContributionDesk, AWorkerThatConnectsAgainReplacesItsOldConnection) {
  const Desk own;
  RawPeer old_one = own.enrolled(7);
  RawPeer worker = own.enrolled(7);
  EXPECT_TRUE(old_one.is_dropped());
  expect_service(own, worker, 1);
}

TEST(ContributionDesk, SilentPeersHoldNobodyUp) {
  const Desk own(0.5);
  RawPeer mute = own.connect();
  RawPeer stops = own.enrolled(8);
  stops.say(MessageType::kContribution, packed_entries(5, 1).offered);  // and sends no byte
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 80; ++i) crowd.push_back(own.connect());
  RawPeer worker = own.enrolled(7);
  EXPECT_TRUE(mute.is_dropped(5));
  EXPECT_TRUE(stops.is_dropped(5));
  RawPeer again = own.enrolled(7);  // it was silent, too
  expect_service(own, again, 1);
}

TEST(ContributionDesk, AnswersAQuestionAboutItsStatus) {
  const Desk own;
  const RawPeer worker = own.enrolled(7);
  const Result<std::string> status = replication::query_status(own.desk->address(), 5);
  ASSERT_TRUE(status.ok()) << status.status().message();
  EXPECT_NE(status->find("\"round\":1"), std::string::npos);
  EXPECT_NE(status->find("a test"), std::string::npos);
  EXPECT_EQ(status->find("0000000000000007"), std::string::npos);  // it would open its place
}

}  // namespace
}  // namespace sparcl::elastic
