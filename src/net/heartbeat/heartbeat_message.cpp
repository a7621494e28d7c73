#include "src/net/heartbeat/heartbeat_message.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sparcl::net {
namespace {

constexpr std::uint32_t kBeatMagic = 0x48637073;  // "spcH"
constexpr std::uint8_t kBeatVersion = 1;

}  // namespace

Beat answer_to(const Beat& beat, BeatKind kind) {
  Beat answer = beat;
  answer.kind = kind;
  std::swap(answer.from, answer.to);
  return answer;
}

BeatBytes encode_beat(const Beat& beat) {
  BeatBytes bytes{};
  store_le(bytes.data(), kBeatMagic);
  bytes[4] = static_cast<std::byte>(kBeatVersion);
  bytes[5] = static_cast<std::byte>(beat.kind);
  bytes[6] = static_cast<std::byte>(beat.path);
  store_le(bytes.data() + 8, beat.token);
  store_le(bytes.data() + 16, beat.from);
  store_le(bytes.data() + 20, beat.to);
  store_le(bytes.data() + 24, beat.sequence);
  return bytes;
}

std::optional<Beat> decode_beat(std::span<const std::byte> bytes) {
  if (bytes.size() != kBeatBytes || load_le<std::uint32_t>(bytes.data()) != kBeatMagic)
    return std::nullopt;
  const auto kind = std::to_integer<std::uint8_t>(bytes[5]);
  if (bytes[4] != std::byte{kBeatVersion} || bytes[7] != std::byte{0} || kind < 1 || kind > 6)
    return std::nullopt;
  Beat beat;
  beat.kind = static_cast<BeatKind>(kind);
  beat.path = std::to_integer<std::uint8_t>(bytes[6]);
  beat.token = load_le<std::uint64_t>(bytes.data() + 8);
  beat.from = load_le<std::uint32_t>(bytes.data() + 16);
  beat.to = load_le<std::uint32_t>(bytes.data() + 20);
  beat.sequence = load_le<std::uint64_t>(bytes.data() + 24);
  return beat;
}

std::vector<std::byte> encode_card(const HeartbeatCard& card) {
  ByteWriter out;
  out.write(kBeatVersion);
  card.process.write(out);
  out.write_bytes(card.random);
  out.write(card.port_v4);
  out.write(card.port_v6);
  const std::size_t count = std::min(card.addresses.size(), kMaxPaths);
  out.write(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) write_ip(card.addresses[i], out);
  return out.take();
}

std::optional<HeartbeatCard> decode_card(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  HeartbeatCard card;
  std::uint8_t version = 0, count = 0;
  std::span<const std::byte> random;
  if (!in.read(version) || version != kBeatVersion || !card.process.read(in) ||
      !in.read_bytes(card.random.size(), random))
    return std::nullopt;
  if (!in.read(card.port_v4) || !in.read(card.port_v6) || !in.read(count) || count > kMaxPaths)
    return std::nullopt;
  std::memcpy(card.random.data(), random.data(), random.size());
  for (int i = 0; i < count; ++i) {
    NetAddress address;
    if (!read_ip(in, address)) return std::nullopt;
    address.port = address.family == NetAddress::Family::kIpv4 ? card.port_v4 : card.port_v6;
    if (address.port != 0) card.addresses.push_back(address);
  }
  if (in.remaining() != 0) return std::nullopt;
  return card;
}

}  // namespace sparcl::net
