#pragma once
// What a rank tells the others about itself before there is a transport between them: who it is,
// and how it is reached.

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
  std::string memory;   // the same for those of a machine that can share memory: containers may not
  std::int64_t pid = 0;
  std::vector<std::uint64_t> cores;  // that it may use: a bit each
  Bytes address;                     // of the transport's body
  std::uint32_t first_id = 0;        // there: what comes from rank r is for this and r
  std::string lanes;                 // that it may use: UCX_TLS
  Bytes liveness;                    // where its heart can be heard; empty where it has none
  Status refusal;                    // why it cannot take part; ok: it can

  // Of this process, without its addresses.
  static PeerCard own();

  Bytes serialise() const;
  static Result<PeerCard> parse(std::span<const std::byte> bytes);
};

// "host h1, pid 4711".
std::string describe(const PeerCard& card);

struct Neighbourhood {
  bool on_one_machine = true;  // all ranks
  bool crowded = false;        // more ranks on this machine than cores that these may use together
};
Neighbourhood look_around(std::span<const PeerCard> cards, int own_rank);

}  // namespace sparcl::transport
