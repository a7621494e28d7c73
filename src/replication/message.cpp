#include "src/replication/message.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/bytes.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint32_t kMagic = 0x31505253;  // "SRP1"

}  // namespace

double alive_period_s(double own_silence_s, std::uint32_t other_silence_ms) {
  constexpr double kPart = 0.2,
                   kLeast = 0.02;  // a message that is late by three periods does no harm
  return std::max(kPart * std::min(own_silence_s, other_silence_ms * 1e-3), kLeast);
}

std::size_t max_content_bytes(MessageType type) {
  switch (type) {
    case MessageType::kChunk:
      return kChunkHeadBytes + kMaxChunkBytes;
    case MessageType::kModelReply:
      return kMaxModelBytes;
    case MessageType::kSchema:
      return kMaxSchemaBytes;
    case MessageType::kDamage:
    case MessageType::kBlocks:
      return kMaxDamageBytes;
    case MessageType::kSideFiles:
      return kMaxSideFilesMessage;
    case MessageType::kStatusReply:
      return kMaxReportBytes;
    default:
      return kMaxMessageBytes;
  }
}

Status out_of_place(MessageType type) {
  return corrupt(fmt::format("a message of type {} is out of place here", static_cast<int>(type)));
}

std::array<std::byte, kHeadBytes> serialise(const MessageHead& head) {
  std::array<std::byte, kHeadBytes> bytes{};
  store_le(bytes.data(), kMagic);
  store_le(bytes.data() + 4, static_cast<std::uint32_t>(head.type));
  store_le(bytes.data() + 8, head.content_bytes);
  store_le(bytes.data() + 12, head.content_crc);
  store_le(bytes.data() + 16, crc32c(std::span(bytes).first(16)));
  return bytes;
}

Result<MessageHead> parse_head(std::span<const std::byte> bytes) {
  if (bytes.size() != kHeadBytes || load_le<std::uint32_t>(bytes.data()) != kMagic) {
    return Status(Code::kCorrupt, "what came is no message of sparcl's replication protocol");
  }
  if (load_le<std::uint32_t>(bytes.data() + 16) != crc32c(bytes.first(16))) {
    return Status(Code::kCorrupt, "the head of a message is damaged (CRC32C)");
  }
  const auto type = load_le<std::uint32_t>(bytes.data() + 4);
  if (type < static_cast<std::uint32_t>(MessageType::kHello) ||
      type > static_cast<std::uint32_t>(kLastMessageType)) {
    return Status(Code::kCorrupt,
                  fmt::format("a message of type {}, which protocol version {} does not have", type,
                              kProtocolVersion));
  }
  const MessageHead head{static_cast<MessageType>(type), load_le<std::uint32_t>(bytes.data() + 8),
                         load_le<std::uint32_t>(bytes.data() + 12)};
  if (head.content_bytes > max_content_bytes(head.type)) {
    return Status(Code::kCorrupt,
                  fmt::format("a message of type {} claims {} bytes, where at most {} are allowed",
                              type, head.content_bytes, max_content_bytes(head.type)));
  }
  return head;
}

}  // namespace sparcl::replication
