// The messages of the replication protocol: refused, or read into fields that are written and read
// again as the same. The first byte of an input says the type.

#include <algorithm>
#include <cstdint>

#include "src/replication/message.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

using namespace replication;

// What was read is written in as many bytes, and read again as the same. (Texts that are no UTF-8
// are made so.)
template <class Parse>
void expect_same(std::span<const std::byte> content, Parse&& parse) {
  const auto message = parse(content);
  if (!message.ok()) return require(message.status().code() == Code::kCorrupt, "it is Corrupt");
  // Of another version of the protocol the number alone is read.
  if constexpr (requires { message->protocol; }) {
    if (message->protocol != kProtocolVersion) return;
  }
  const auto written = serialise(*message);
  require(std::size(written) == content.size(), "one message has one length");
  const auto again = parse(written);
  require(again.ok() && std::ranges::equal(serialise(*again), written),
          "what is written is read as it was");
}

void run(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const auto type = static_cast<MessageType>(input[0]);
  const std::span<const std::byte> content = input.subspan(1);
  switch (type) {
    case MessageType::kHello:
      return expect_same(content, parse_hello);
    case MessageType::kWelcome:
      return expect_same(content, parse_welcome);
    case MessageType::kRefusal:
      return expect_same(content, parse_refusal);
    case MessageType::kOffer:
      return expect_same(content, parse_offer);
    case MessageType::kRequest:
      return expect_same(content, parse_request);
    case MessageType::kCommit:
      return expect_same(content, parse_commit_note);
    case MessageType::kAck:
      return expect_same(content, parse_ack);
    case MessageType::kNack:
      return expect_same(content, parse_nack);
    case MessageType::kAlive:
      return expect_same(content, parse_alive);
    case MessageType::kBye:
      return expect_same(content, parse_bye);
    case MessageType::kModelQuery:
      return expect_same(content, parse_model_query);
    case MessageType::kModelReply:
      return expect_same(content, parse_model_reply);
    case MessageType::kParent:
      return expect_same(content, parse_parent);
    case MessageType::kOrphan:
      return expect_same(content, parse_orphan);
    case MessageType::kPiece:
      return expect_same(content, parse_piece);
    case MessageType::kPin:
      return expect_same(content, parse_pin);
    case MessageType::kDamage:
      return expect_same(content, parse_damage);
    case MessageType::kLeaves:
      return expect_same(content, parse_leaves);
    case MessageType::kIdentity:
      return expect_same(content, parse_identity);
    case MessageType::kBlocks:
      return expect_same(content, parse_block_digests);
    case MessageType::kProof:
      return expect_same(content, parse_session_proof);
    case MessageType::kFresh:
      return expect_same(content, parse_fresh);
    case MessageType::kSideFiles:
      return expect_same(content, parse_side_file_set);
    default:
      return;
  }
}

template <class Message>
Bytes seed(MessageType type, const Message& message) {
  Bytes bytes{static_cast<std::byte>(type)};
  std::ranges::copy(serialise(message), std::back_inserter(bytes));
  return bytes;
}

std::vector<Bytes> seeds() {
  const Offer offer{{}, {trust::KeySignature{}}};
  Hello known;
  known.latest = {1, 2, offer};
  Welcome full;
  full.memory.emplace();
  full.relay_key.emplace();
  return {
      seed(MessageType::kHello, Hello{}),
      seed(MessageType::kHello, known),
      seed(MessageType::kWelcome, full),
      seed(MessageType::kRefusal, Refusal{Code::kMismatch, "why"}),
      seed(MessageType::kOffer, offer),
      seed(MessageType::kRequest, Request{}),
      seed(MessageType::kCommit, CommitNote{}),
      seed(MessageType::kAck, Ack{AckStage::kHeld, {}}),
      seed(MessageType::kNack, Nack{{}, Code::kWrongBase, true, "why"}),
      seed(MessageType::kAlive, Alive{}),
      seed(MessageType::kBye, Bye{}),
      seed(MessageType::kModelQuery, LatestHeld{1, 2, offer}),
      seed(MessageType::kModelReply, ModelReply{"m", {{}}, {{}}, 1, {trust::KeySignature{}}}),
      seed(MessageType::kParent, Parent{1, net::loopback_address(4711), "host", RelayTicket{}}),
      seed(MessageType::kParent, Parent{1, {}, "host", {}}),
      seed(MessageType::kParent, Parent{1, net::loopback_address(4711), "host", {}, true}),
      seed(MessageType::kOrphan, Orphan{}),
      seed(MessageType::kPiece, Piece{}),
      seed(MessageType::kPin, Pin{}),
      seed(MessageType::kDamage, Damage{{}, {{}, {}}}),
      seed(MessageType::kLeaves, Leaves{}),
      seed(MessageType::kIdentity, Identity{"m", 1, {}, {}, {}, {trust::KeySignature{}}}),
      seed(MessageType::kBlocks, BlockDigests{{}, {{}, {}}}),
      seed(MessageType::kProof, SessionProof{}),
      seed(MessageType::kFresh, Fresh{"m", 1, {}, {}, {}, {{}, {}}}),
      seed(MessageType::kSideFiles, SideFileSet{"m", 1, 2, {}, {trust::KeySignature{}}, {}}),
      seed(MessageType::kSideFiles,
           SideFileSet{"m", 1, 2, {}, {}, {{{"config.json", 2, {std::byte{1}}}}}}),
  };
}

const Registration registration({"message", run, seeds, nullptr});

}  // namespace
}  // namespace sparcl::fuzz
