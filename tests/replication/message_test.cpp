#include "src/replication/message.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sparcl::replication {
namespace {

Commit some_commit() {
  Commit commit;
  commit.model_id = "model";
  commit.epoch = 7;
  commit.base_version = 3;
  commit.version = 4;
  commit.schema_hash = {1, 2};
  commit.base_hash = {3, 4};
  commit.target_hash = {5, 6};
  commit.elements = 1000;
  commit.changed = 10;
  commit.stream_bytes = 77;
  commit.stream_digest.fill(std::byte{9});
  return commit;
}

TEST(Message, HeadsComeBack) {
  const MessageHead head{MessageType::kOffer, 123, 456};
  const auto bytes = serialise(head);
  const Result<MessageHead> read = parse_head(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->type, MessageType::kOffer);
  EXPECT_EQ(read->content_bytes, 123U);
  EXPECT_EQ(read->content_crc, 456U);
}

TEST(Message, EveryFlippedBitOfAHeadIsFound) {
  auto bytes = serialise(MessageHead{MessageType::kChunk, 5000, 1});
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(parse_head(bytes).ok()) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(Message, ClaimsOfManyBytesAreRefused) {
  for (const MessageType type :
       {MessageType::kHello, MessageType::kOffer, MessageType::kChunk, MessageType::kStatusReply}) {
    const Result<MessageHead> read = parse_head(serialise(MessageHead{type, UINT32_MAX, 0}));
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.status().code(), Code::kCorrupt);
    EXPECT_NE(read.status().message().find("4294967295"), std::string::npos);
  }
}

TEST(Message, OffersComeBackWithAndWithoutASignature) {
  Offer offer{some_commit(), {}};
  Result<Offer> read = parse_offer(serialise(offer));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->commit, offer.commit);
  EXPECT_TRUE(read->signatures.empty());
  offer.signatures.resize(2);
  offer.signatures[1].key.fill(std::byte{1});
  offer.signatures[1].signature.fill(std::byte{2});
  read = parse_offer(serialise(offer));
  ASSERT_TRUE(read.ok() && read->signatures.size() == 2);
  EXPECT_EQ(read->signatures[1].key, offer.signatures[1].key);
  EXPECT_EQ(read->signatures[1].signature, offer.signatures[1].signature);
}

// Whatever is cut off or put behind: no message, and no read outside it.
template <class Parse>
void expect_exact(const std::vector<std::byte>& bytes, Parse&& parse) {
  ASSERT_TRUE(parse(bytes).ok());
  for (std::size_t count = 0; count < bytes.size(); ++count) {
    EXPECT_FALSE(parse(std::vector<std::byte>(bytes.begin(),
                                              bytes.begin() + static_cast<std::ptrdiff_t>(count)))
                     .ok())
        << count;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse(longer).ok());
}

TEST(Message, AGiverIsNamedWithItsAddress) {
  const Parent giver{2, net::loopback_address(4711), "host", RelayTicket{}, true};
  const Result<Parent> read = parse_parent(serialise(giver));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->gives_bytes && read->ticket);
  EXPECT_FALSE(parse_parent(serialise(Parent{2, {}, "the publisher", {}, true})).ok());
}

TEST(Message, AnIdentityNamesThePlacementOutsideOfWhatIsSigned) {
  Identity identity{"m", 1, {2, {3, 4}}, {5, 6}, {}, {trust::KeySignature{}}, 7};
  const Result<Identity> read = parse_identity(serialise(identity));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->placement, 7U);
  const std::vector<std::byte> signed_text = signed_bytes(identity);
  identity.placement = 8;
  EXPECT_EQ(signed_bytes(identity), signed_text);
}

TEST(Message, PartsOfMessagesAreNone) {
  expect_exact(serialise(Hello{kProtocolVersion,
                               "model",
                               {1, 2},
                               1,
                               {3, {4, 5}},
                               {6, {7, 8}},
                               1,
                               9,
                               4711,
                               true,
                               "host",
                               12,
                               true}),
               [](const auto& bytes) { return parse_hello(bytes); });
  Hello told;
  told.only_told = true;
  EXPECT_TRUE(parse_hello(serialise(told))->only_told);
  expect_exact(
      serialise(Welcome{kProtocolVersion, "model", 1, 2, 3, "host", MemoryInvitation{4, 5, {}}}),
      [](const auto& bytes) { return parse_welcome(bytes); });
  expect_exact(serialise(Refusal{Code::kMismatch, "why"}),
               [](const auto& bytes) { return parse_refusal(bytes); });
  expect_exact(serialise(Offer{some_commit(), {trust::KeySignature{}}}),
               [](const auto& bytes) { return parse_offer(bytes); });
  expect_exact(serialise(Request{{1, 2}, 3}),
               [](const auto& bytes) { return parse_request(bytes); });
  expect_exact(serialise(Welcome{kProtocolVersion, "model", 1, 2, 3, "host", {}}),
               [](const auto& bytes) { return parse_welcome(bytes); });
  expect_exact(serialise(Piece{1, 2, 3, 4}), [](const auto& bytes) { return parse_piece(bytes); });
  expect_exact(serialise(CommitNote{{1, 2}}),
               [](const auto& bytes) { return parse_commit_note(bytes); });
  expect_exact(serialise(Ack{AckStage::kHeld, {1, {2, 3}}}),
               [](const auto& bytes) { return parse_ack(bytes); });
  expect_exact(serialise(Nack{{1, 2}, Code::kWrongBase, true, "why"}),
               [](const auto& bytes) { return parse_nack(bytes); });
  expect_exact(serialise(ModelReply{"m", {std::byte{1}, std::byte{2}}, {std::byte{3}}}),
               [](const auto& bytes) { return parse_model_reply(bytes); });
  expect_exact(serialise(Parent{1, net::loopback_address(4711), "host"}),
               [](const auto& bytes) { return parse_parent(bytes); });
  expect_exact(serialise(Parent{1, net::loopback_address(4711), "host", RelayTicket{}}),
               [](const auto& bytes) { return parse_parent(bytes); });
  Welcome with_key;
  with_key.relay_key.emplace();
  expect_exact(serialise(with_key), [](const auto& bytes) { return parse_welcome(bytes); });
  expect_exact(serialise(SessionProof{}),
               [](const auto& bytes) { return parse_session_proof(bytes); });
  expect_exact(serialise(Parent{1, net::loopback_address(4711), "host", RelayTicket{}, true}),
               [](const auto& bytes) { return parse_parent(bytes); });
  expect_exact(serialise(Parent{1, {}, "host"}),
               [](const auto& bytes) { return parse_parent(bytes); });
  expect_exact(serialise(Orphan{1, {2, {3, 4}}, 1, Code::kTimeout, "why"}),
               [](const auto& bytes) { return parse_orphan(bytes); });
  expect_exact(serialise(Identity{"m", 1, {2, {3, 4}}, {5, 6}, {}, {trust::KeySignature{}}, 7}),
               [](const auto& bytes) { return parse_identity(bytes); });
  expect_exact(serialise(Alive{1}), [](const auto& bytes) { return parse_alive(bytes); });
  expect_exact(serialise(Damage{{1, {2, 3}}, {}}),
               [](const auto& bytes) { return parse_damage(bytes); });
  expect_exact(serialise(BlockDigests{{1, {2, 3}}, {}}),
               [](const auto& bytes) { return parse_block_digests(bytes); });
  expect_exact(serialise(Pin{3}), [](const auto& bytes) { return parse_pin(bytes); });
  expect_exact(std::vector<std::byte>(32),
               [](const auto& bytes) { return parse_side_wanted(bytes); });
  SideFileSet set{"m", 1, 2, {}, {trust::KeySignature{}}, {}};
  expect_exact(serialise(set), [](const auto& bytes) { return parse_side_file_set(bytes); });
  set.files = {{"config.json", 2, {std::byte{1}}}, {"vocab.txt", 0, {}}};
  expect_exact(serialise(set), [](const auto& bytes) { return parse_side_file_set(bytes); });
}

TEST(Message, SetsOfFilesWithOtherNamesOrSizesAreNone) {
  const auto is_set = [](std::vector<model::PackedFile> files) {
    return parse_side_file_set(serialise(SideFileSet{"m", 1, 2, {}, {}, std::move(files)})).ok();
  };
  EXPECT_TRUE(is_set({}));
  EXPECT_TRUE(is_set({{"a.json", model::kMaxSideFileBytes, {}}}));
  EXPECT_FALSE(is_set({{"a.json", model::kMaxSideFileBytes + 1, {}}}));
  EXPECT_FALSE(is_set({{"../a.json", 1, {}}})) << "it leads out of the folder";
  EXPECT_FALSE(is_set({{"model.safetensors", 1, {}}}));
  EXPECT_FALSE(is_set({{"run.py", 1, {}}}));
  EXPECT_FALSE(is_set({{"b.json", 1, {}}, {"a.json", 1, {}}})) << "in no order";
}

TEST(Message, APieceIsNeitherEmptyNorLargerThanASegment) {
  EXPECT_FALSE(parse_piece(serialise(Piece{1, 2, 0, 3})).ok());
  EXPECT_TRUE(parse_piece(serialise(Piece{1, 2, kMaxPieceBytes, 3})).ok());
  EXPECT_FALSE(parse_piece(serialise(Piece{1, 2, kMaxPieceBytes + 1, 3})).ok());
  EXPECT_FALSE(parse_piece(serialise(Piece{1, 2, 3, -1})).ok());
}

TEST(Message, BlocksHaveWholeDigestsOnly) {
  const std::vector<std::byte> bytes =
      serialise(BlockDigests{{1, {2, 3}}, {{std::byte{4}}, {std::byte{5}}}});
  EXPECT_EQ(bytes.size(), block_digests_bytes(2));
  for (std::size_t count = 0; count <= bytes.size(); ++count) {
    const Result<BlockDigests> read = parse_block_digests(std::span(bytes).first(count));
    ASSERT_EQ(read.ok(), count >= 24 && count % 32 == 24) << count;
    if (read.ok()) {
      EXPECT_EQ(read->of_blocks.size(), (count - 24) / 32);
    }
  }
  EXPECT_LE(block_digests_bytes(kMaxDigestedBlocks), max_content_bytes(MessageType::kBlocks));
}

TEST(Message, DamageHasWholeHashesOnly) {
  const Damage damage{{1, {2, 3}}, {{4, 5}, {6, 7}, {8, 9}}};
  const std::vector<std::byte> bytes = serialise(damage);
  for (std::size_t count = 0; count <= bytes.size(); ++count) {
    const Result<Damage> read = parse_damage(std::span(bytes).first(count));
    ASSERT_EQ(read.ok(), count >= 24 && count % 16 == 8) << count;
    if (read.ok()) {
      EXPECT_EQ(read->version, damage.version);
      const std::size_t hashes = (count - 24) / 16;
      EXPECT_TRUE(
          std::ranges::equal(read->block_hashes, std::span(damage.block_hashes).first(hashes)));
    }
  }
  EXPECT_EQ(24 + 16 * kMaxDamagedBlocks, kMaxDamageBytes - 8);
  EXPECT_LE(serialise(Damage{{}, std::vector<Hash128>(kMaxDamagedBlocks)}).size(),
            max_content_bytes(MessageType::kDamage));
}

TEST(Message, LeavesHaveWholeDigestsOnly) {
  const Leaves leaves{{1, 2}, 3, std::vector<Digest256>(3)};
  const std::vector<std::byte> bytes = serialise(leaves);
  for (std::size_t count = 0; count <= bytes.size(); ++count) {
    const Result<Leaves> read = parse_leaves(std::span(bytes).first(count));
    ASSERT_EQ(read.ok(), count >= 24 && count % 32 == 24) << count;
    if (read.ok()) {
      EXPECT_EQ(read->digests.size(), (count - 24) / 32);
    }
  }
  EXPECT_LE(serialise(Leaves{{}, 0, std::vector<Digest256>(kMaxLeavesAtOnce)}).size(),
            max_content_bytes(MessageType::kLeaves));
}

// Nothing else of such a greeting can be read; the peer is still told why it is refused.
TEST(Message, AGreetingOfAnotherProtocolSaysWhichOne) {
  const std::vector<std::byte> bytes{std::byte{4}, std::byte{0}, std::byte{9}};
  ASSERT_TRUE(parse_hello(bytes).ok());
  EXPECT_EQ(parse_hello(bytes)->protocol, 4);
  ASSERT_TRUE(parse_welcome(bytes).ok());
  EXPECT_EQ(parse_welcome(bytes)->protocol, 4);
}

TEST(Message, HellosComeBack) {
  const Result<Hello> read = parse_hello(serialise(Hello{kProtocolVersion,
                                                         "model",
                                                         {1, 2},
                                                         1,
                                                         {3, {4, 5}},
                                                         {6, {7, 8}},
                                                         1,
                                                         9,
                                                         4711,
                                                         true,
                                                         "host",
                                                         12,
                                                         true}));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->pin, 12U);
  EXPECT_TRUE(read->damaged);
}

TEST(Message, TextsAreCutWhenWritten) {
  const Result<Refusal> read =
      parse_refusal(serialise(Refusal{Code::kCorrupt, std::string(100'000, 'x')}));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->text.size(), 4096U);
}

TEST(Message, NoiseIsNone) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> noise(random() % 300);
    for (std::byte& each : noise) each = std::byte(static_cast<std::uint8_t>(random()));
    EXPECT_FALSE(parse_head(noise).ok());
    (void)parse_hello(noise).ok();
    EXPECT_FALSE(parse_offer(noise).ok());
    (void)parse_nack(noise).ok();
    (void)parse_ack(noise).ok();
    (void)parse_parent(noise).ok();
    (void)parse_orphan(noise).ok();
    EXPECT_EQ(parse_damage(noise).ok(), noise.size() >= 24 && noise.size() % 16 == 8);
    EXPECT_EQ(parse_leaves(noise).ok(), noise.size() >= 24 && noise.size() % 32 == 24);
    EXPECT_FALSE(parse_identity(noise).ok());
  }
}

}  // namespace
}  // namespace sparcl::replication
