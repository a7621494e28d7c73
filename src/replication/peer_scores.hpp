#pragma once
// How peers behave, by what names them: an address, or a name at an address. Misbehaviour adds
// points, which decay. A peer with too many points is backed off for a time that doubles. All bytes
// of a version that one address takes again and again come at a bounded rate
// (docs/decisions/0033-behaviour-of-peers.md).
//
// The tables have fixed sizes. If one is full, the peer that matters least is forgotten.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/net/net_address.hpp"

namespace sparcl::replication {

enum class Offence : std::uint8_t {
  kHandshake,  // a handshake that failed or was not ended
  kMalformed,  // bytes that are no message, or a message out of place
  kRole,       // a message that its role may not send
  kFalseAck,   // of a version that does not exist
};

class PeerScores {
 public:
  // Heuristic, all of them.
  static constexpr std::size_t kMaxPeers = 1024;
  static constexpr double kHalfLife = 60;          // seconds in which half of the points go
  static constexpr double kLimit = 8;              // points
  static constexpr double kFirstBackOff = 1;       // seconds
  static constexpr double kLongestBackOff = 64;    // seconds
  static constexpr double kBackedOffPatience = 1;  // seconds for a first message

  PeerScores() { peers_.reserve(kMaxPeers); }
  static double points_of(Offence offence);

  // The address without its port; of IPv6 the first 64 bits. Nothing: all peers without an address
  // are one.
  static std::string key_of(const std::optional<net::NetAddress>& address);
  static std::string key_of(const std::optional<net::NetAddress>& address, std::string_view name);

  void note(std::string_view key, Offence offence, double now);
  // Seconds until it may come again; 0: now.
  double backed_off_s(std::string_view key, double now) const;
  std::size_t size() const { return peers_.size(); }
  bool is_empty() const { return peers_.empty(); }

 private:
  struct Peer {
    std::uint64_t key = 0;
    double points = 0;
    double at = 0;  // of these points
    double until = 0;
    double next_s = kFirstBackOff;
  };
  static double points_at(const Peer& peer, double now);
  static std::uint64_t hash_of(std::string_view key);
  const Peer* find(std::uint64_t key) const;
  Peer& find_or_add(std::uint64_t key, double now);

  std::vector<Peer> peers_;
};

// All bytes of a version, which peers of one address take again and again.
class CopyLimits {
 public:
  // Heuristic, all of them.
  static constexpr std::size_t kMaxAddresses = 256;
  static constexpr double kHalfLife = 300;      // seconds in which half of the copies are forgotten
  static constexpr double kFreeCopies = 8;      // of an address
  static constexpr double kCopiesAReplica = 2;  // more, for each replica that is connected
  static constexpr double kMinRate = 16 << 20;  // bytes a second, of an address beyond that
  static constexpr double kSecondsACopy = 60;   // or one copy in this time, if that is more

  explicit CopyLimits(std::uint64_t copy_bytes = 0)
      : rate_(std::max(kMinRate, static_cast<double>(copy_bytes) / kSecondsACopy)) {
    addresses_.reserve(kMaxAddresses);
  }

  // One more begins.
  void begin(std::string_view address, double now);
  // The address has had more than its share. replicas: of it that are connected.
  bool is_over(std::string_view address, std::size_t replicas, double now) const;
  // Whether bytes may go to such an address now; bytes that went there.
  bool may_send(std::string_view address, double now);
  void sent(std::string_view address, std::uint64_t bytes);
  bool is_empty() const { return addresses_.empty(); }

 private:
  struct Address {
    std::string key;
    double copies = 0;
    double at = 0;
    double bytes_left = 0;
    double filled_at = 0;
  };
  static double copies_at(const Address& address, double now);
  Address* find(std::string_view key);
  const Address* find(std::string_view key) const;

  double rate_;
  std::vector<Address> addresses_;
};

}  // namespace sparcl::replication
