#pragma once
// The heartbeats' datagrams, all of one size, so that no answer is larger than its question. The
// card, by which a rank says where it can be pinged. docs/explanation/liveness.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/net/heartbeat/process_identity.hpp"
#include "src/net/net_address.hpp"

namespace sparcl::net {

// kBye: the sender leaves the communicator. kOut: the answer to a ping of a receiver that the
// sender has given up. kFirst: the first peer whose end the sender saw. kGoesOn: the sender
// continues without the receiver, which it has given up.
enum class BeatKind : std::uint8_t {
  kPing = 1,
  kPong = 2,
  kBye = 3,
  kOut = 4,
  kFirst = 5,
  kGoesOn = 6
};

struct Beat {
  BeatKind kind = BeatKind::kPing;
  std::uint8_t path =
      0;  // the index of the receiver's address at which a ping came; answers repeat it
  std::uint64_t token = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t sequence = 0;  // of a ping; answers repeat it. kFirst: the rank of the dead
};

Beat answer_to(const Beat& beat, BeatKind kind);

constexpr std::size_t kBeatBytes = 32;
using BeatBytes = std::array<std::byte, kBeatBytes>;

BeatBytes encode_beat(const Beat& beat);
std::optional<Beat> decode_beat(
    std::span<const std::byte> bytes);  // nothing if the bytes are no beat

constexpr std::size_t kMaxPaths = 8;

struct HeartbeatCard {
  ProcessIdentity process;
  std::array<std::byte, 16> random{};  // those of all ranks together make the communicator's token
  std::uint16_t port_v4 = 0;           // 0: no such socket
  std::uint16_t port_v6 = 0;
  std::vector<NetAddress> addresses;  // with their ports
};

std::vector<std::byte> encode_card(const HeartbeatCard& card);
std::optional<HeartbeatCard> decode_card(std::span<const std::byte> bytes);

}  // namespace sparcl::net
