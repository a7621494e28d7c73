#pragma once
// Publishers and replicas that rogues talk to, and updates as they travel.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/codec/wire.hpp"
#include "src/model/state_identity.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {

// The greeting of a replica that says that it holds `held`.
inline Hello hello_with(const HeldVersion& held, const Hash128& schema_hash,
                        std::uint16_t port = 0) {
  Hello hello;
  hello.model_id = kModelId;
  hello.schema_hash = schema_hash;
  hello.wire_version = codec::kWireVersion;
  hello.held = hello.tip = held;
  hello.silence_ms = 5000;
  hello.port = port;
  hello.name = "a test";
  hello.held_is_vouched = hello.tip_is_vouched = true;
  return hello;
}
inline Hello hello_of(const SmallModel& model, std::uint16_t port = 0) {
  return hello_with({0, model.hash()}, model.view().schema_hash, port);
}

inline std::vector<Digest256> leaves_of(std::span<const std::byte> bytes) {
  std::vector<Digest256> leaves;
  for (std::size_t at = 0; at < bytes.size(); at += kLeafBytes) {
    leaves.push_back(
        *leaf_digest(bytes.subspan(at, std::min<std::size_t>(kLeafBytes, bytes.size() - at))));
  }
  return leaves;
}
// As of an update with these bytes.
inline Commit sealed(Commit commit, std::span<const std::byte> bytes) {
  commit.stream_bytes = bytes.size();
  commit.stream_digest = *root_of(leaves_of(bytes));
  return commit;
}

inline Buffer noise_of(std::size_t bytes) {
  Buffer noise = Buffer::allocate(bytes);
  std::fill(noise.bytes().begin(), noise.bytes().end(), std::byte{0x5a});
  return noise;
}

// A publisher's digest of `state` as version `version`.
inline Identity identity_of(const ReplicatedState& state, std::uint64_t version,
                            std::uint64_t epoch) {
  model::StateIdentity digest(state.schema_digest);
  EXPECT_TRUE(*digest.step(*state.map, {state.readable()}, UINT64_MAX));
  return {kModelId, epoch, {version, state.hash()}, state.schema_hash, *digest.finish(), {}};
}
// A test plays the publisher: what the replica came with is what it has published.
inline void vouch(RawPeer& peer, const ReplicatedState& state, std::uint64_t epoch) {
  peer.say(MessageType::kIdentity, identity_of(state, 1, epoch));
  EXPECT_EQ(peer.hear(), MessageType::kAck);
  const Result<Ack> ack = parse_ack(peer.link().content());
  EXPECT_TRUE(ack.ok() && ack->is_vouched);
}

// The bytes of a publisher's update, as a replica gets them.
struct Recorded {
  Offer offer;
  Buffer bytes;
};
inline Recorded record_update(RawPeer& peer) {
  EXPECT_EQ(peer.hear(), MessageType::kOffer);
  Recorded got{*parse_offer(peer.link().content()), {}};
  got.bytes = Buffer::allocate(got.offer.commit.stream_bytes);
  peer.say(MessageType::kRequest,
           Request{{got.offer.commit.base_version, got.offer.commit.version}, 0});
  const auto place = [&](const ChunkHead& chunk, std::size_t count) {
    return got.bytes.slice(chunk.first_byte, count);
  };
  std::optional<MessageType> said = peer.hear(RawPeer::kPatience, place);
  while (said == MessageType::kLeaves || said == MessageType::kChunk)
    said = peer.hear(RawPeer::kPatience, place);
  EXPECT_EQ(said, MessageType::kCommit);
  return got;
}
inline Recorded record_update(Publisher& publisher, const HeldVersion& held,
                              const Hash128& schema_hash, const LatestHeld& latest = {}) {
  RawPeer peer = RawPeer::connect(publisher.address());
  Hello hello = hello_with(held, schema_hash);
  hello.latest = latest;
  peer.say(MessageType::kHello, hello);
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  return record_update(peer);
}

// Leaves, where there are several, and the bytes from there on.
inline void send_update(RawPeer& peer, const Recorded& update, const Request& request) {
  const Commit& commit = update.offer.commit;
  const UpdateName name{commit.base_version, commit.version};
  if (!request.has_leaves && leaf_count(commit.stream_bytes) > 1) {
    peer.say(MessageType::kLeaves, Leaves{name, 0, leaves_of(update.bytes.bytes())});
  }
  for (std::size_t at = request.first_byte; at < update.bytes.size();) {
    const std::size_t count =
        std::min<std::size_t>(kMaxChunkBytes - at % kMaxChunkBytes, update.bytes.size() - at);
    peer.link().queue_chunk({commit.version, at}, update.bytes.slice(at, count));
    at += count;
  }
  peer.say(MessageType::kCommit, CommitNote{name});
  for (int i = 0; i < 2000 && peer.link().queued_bytes() > 0 && peer.link().flush(); ++i)
    usleep(1000);
}

// Until the other side asks for it, past its acknowledgements; nothing: it does not.
inline std::optional<Request> hear_request(RawPeer& peer, double seconds = RawPeer::kPatience) {
  const double until = net::monotonic_seconds() + seconds;
  std::optional<MessageType> said = peer.hear(seconds);
  while (said == MessageType::kAck) said = peer.hear(until - net::monotonic_seconds());
  if (said != MessageType::kRequest) return {};
  return *parse_request(peer.link().content());
}

inline void replay(RawPeer& peer, const Recorded& update) {
  peer.say(MessageType::kOffer, update.offer);
  if (const std::optional<Request> request = hear_request(peer))
    send_update(peer, update, *request);
}

// A number of a publisher's status.
inline std::uint64_t figure(const Publisher& publisher, const char* name) {
  return nlohmann::json::parse(publisher.status()).at(name);
}

}  // namespace sparcl::replication
