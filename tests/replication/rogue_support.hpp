#pragma once
// Publishers and replicas that rogues talk to, and updates as they travel.

#include <gtest/gtest.h>

#include <algorithm>

#include "src/codec/wire.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {

inline Hello hello_of(const SmallModel& model) {
  const HeldVersion held{0, model.hash()};
  return {kProtocolVersion, "m", model.view().schema_hash, codec::kWireVersion, held, held, 0, 5000, 0, false, "a test"};
}

// The bytes of a publisher's update, as a replica gets them.
struct Recorded {
  Offer offer;
  Buffer bytes;
};
inline Recorded record_update(Publisher& publisher, const HeldVersion& held, const Hash128& schema_hash,
                              const LatestHeld& latest = {}) {
  RawPeer peer = RawPeer::connect(publisher.address());
  Hello hello{kProtocolVersion, "m", schema_hash, codec::kWireVersion, held, held, 0, 5000, 0, false, "a thief"};
  hello.latest = latest;
  peer.say(MessageType::kHello, hello);
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  EXPECT_EQ(peer.hear(), MessageType::kOffer);
  Recorded got{*parse_offer(peer.link().content()), {}};
  got.bytes = Buffer::allocate(got.offer.commit.stream_bytes);
  peer.say(MessageType::kRequest, Request{{got.offer.commit.base_version, got.offer.commit.version}, 0});
  const auto place = [&](const ChunkHead& chunk, std::size_t count) { return got.bytes.slice(chunk.first_byte, count); };
  while (peer.hear(RawPeer::kPatience, place) == MessageType::kChunk) {
  }
  EXPECT_EQ(peer.link().type(), MessageType::kCommit);
  return got;
}

inline void replay(RawPeer& peer, const Recorded& update) {
  peer.say(MessageType::kOffer, update.offer);
  const std::optional<MessageType> answer = peer.hear();
  if (answer != MessageType::kRequest) return;
  for (std::size_t at = 0; at < update.bytes.size(); at += kMaxChunkBytes) {
    peer.link().queue_chunk({update.offer.commit.version, at},
                            update.bytes.slice(at, std::min(kMaxChunkBytes, update.bytes.size() - at)));
  }
  peer.say(MessageType::kCommit, CommitNote{{update.offer.commit.base_version, update.offer.commit.version}});
}

}  // namespace sparcl::replication
