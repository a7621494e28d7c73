#pragma once
// A root's desk, and peers that say what a test wants.

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "src/elastic/root_desk.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::elastic {

using replication::MessageType;
using replication::RawPeer;

constexpr std::uint64_t kElements = 100'000;

inline sparse::BlockRun run_of_model() {
  sparse::BlockRun run;
  run.blocks = 2;
  return run;
}

inline DeskOptions desk_options() {
  DeskOptions options;
  options.model_id = "m";
  options.schema_hash = {1, 2};
  options.run = run_of_model();
  options.count = kElements;
  options.held_bytes = 1 << 20;
  options.results = "127.0.0.1:1";
  return options;
}

struct Desk {
  explicit Desk(const DeskOptions& options = desk_options()) {
    Result<replication::Listener> listener =
        replication::Listener::open("", replication::Reach::kThisMachine);
    desk = std::move(*RootDesk::create(kernels::cpu_kernels(), options, std::move(*listener), {}));
  }
  RawPeer connect() const { return RawPeer::connect(desk->address(), {}); }
  RawPeer enrolled(aggregate::WorkerId worker) const {
    RawPeer peer = connect();
    peer.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "m", {1, 2}, worker, 5000, "a test"});
    EXPECT_EQ(peer.hear(), MessageType::kNonce);
    peer.say(MessageType::kJoin, Join{});
    EXPECT_EQ(peer.hear(), MessageType::kEnrolled);
    return peer;
  }
  std::unique_ptr<RootDesk> desk;
};

inline Packed packed_of(const std::vector<std::uint64_t>& indices, std::uint64_t round) {
  BufferPool buffers(0);
  std::vector<float> values(indices.size());
  std::iota(values.begin(), values.end(), 1.0F);
  Packed packed = *pack(buffers, kernels::cpu_kernels(), run_of_model(),
                        {DataType::kFloat32, DataType::kFloat32}, indices,
                        reinterpret_cast<const std::byte*>(values.data()));
  packed.offered.round = round;
  return packed;
}
inline Packed packed_entries(std::uint64_t first, std::uint64_t round) {
  return packed_of({first, first + 7}, round);
}
inline Packed packed_many(std::uint64_t entries, std::uint64_t round) {
  std::vector<std::uint64_t> indices(entries);
  std::iota(indices.begin(), indices.end(), 0U);
  return packed_of(indices, round);
}

inline void expect_refusal(RawPeer& peer, const std::string& part) {
  ASSERT_EQ(peer.hear(), MessageType::kRefusal);
  const Result<replication::Refusal> refusal = replication::parse_refusal(peer.link().content());
  ASSERT_TRUE(refusal.ok());
  EXPECT_NE(refusal->text.find(part), std::string::npos) << refusal->text;
  EXPECT_TRUE(peer.is_dropped());
}

inline void send_all(RawPeer& peer, const Packed& packed) {
  peer.say(MessageType::kContribution, packed.offered);
  ASSERT_EQ(peer.hear(), MessageType::kWanted);
  peer.link().queue_chunk({packed.offered.round, 0}, packed.bytes);
  (void)peer.link().flush();
}

// A worker contributes, and the round has it.
inline void expect_service(const Desk& own, RawPeer& worker, std::uint64_t round) {
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

}  // namespace sparcl::elastic
