#pragma once
// A rank's description for the other ranks, sent before there is a transport between them: its
// identity, and its address.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

struct PeerCard {
  std::string host;     // its name, for texts
  std::string machine;  // the same for all processes of one booted machine, and no others
  std::string
      memory;  // the same for processes that can share memory; containers of one machine may not
  std::int64_t pid = 0;
  std::vector<std::uint64_t> cores;  // that it may use, one bit each
  Bytes address;                     // of its transport
  std::uint32_t first_id = 0;        // there: messages from rank r have the id first_id + r
  std::string lanes;                 // that it may use: UCX_TLS
  Bytes liveness;                    // address of its heartbeat; empty if it has none
  Status refusal;                    // why it cannot take part; ok: it can

  // The card of this process, without its addresses.
  static PeerCard own();

  Bytes serialise() const;
  static Result<PeerCard> parse(std::span<const std::byte> bytes);
};

// "host h1, pid 4711".
std::string describe(const PeerCard& card);

struct Neighbourhood {
  bool on_one_machine = true;  // all ranks
  bool crowded = false;        // more ranks on this machine than cores that they may use together
};
Neighbourhood look_around(std::span<const PeerCard> cards, int own_rank);

}  // namespace sparcl::transport
