#pragma once
// The actions that a replica's machine asks of the owner of its connections, in this order.

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "src/net/net_address.hpp"
#include "src/replication/message.hpp"
#include "src/replication/update_store.hpp"
#include "src/replication/upstream_view.hpp"

namespace sparcl::replication {

namespace replica_action {

struct Send {  // any other message
  UpstreamKind to;
  MessageType type;
  std::vector<std::byte> content;
};
// Calls of the contract VersionSource.
struct Offer {
  UpstreamKind to;
  model::VersionHave have;
};
struct Chunks {
  UpstreamKind of;
  model::ChunkRequest plan;
};
struct Refuse {
  UpstreamKind of;
  model::PlanRefusal why;
};

struct Expect {  // a message of this type may be large from now on
  UpstreamKind from;
  MessageType type;
};
struct Flush {  // what is queued goes out now
  UpstreamKind to;
};
struct Leave {  // says goodbye
  UpstreamKind from;
};
struct Part {  // the connection ends for this reason
  UpstreamKind from;
  Status why;
};
struct ConnectParent {
  net::NetAddress address;
  std::optional<RelayTicket> ticket;
};

// The updates that other replicas take from this one.
struct PassOn {
  UpdateRef update;
};
struct PassBytesOn {};  // more of it has come
struct Withdraw {
  UpdateRef update;
};
struct StopPassingOn {};  // nothing that was passed on is of use
struct SetEpoch {
  std::uint64_t epoch;
};
struct SetRelayKey {  // of the tickets of those that take from here
  RelayKey key;
};

struct WakeUser {};      // next() has a reason to look
struct NoteProgress {};  // an update has come whole: a lost connection is tried again soon

using Any = std::variant<Send, Offer, Chunks, Refuse, Expect, Flush, Leave, Part, ConnectParent,
                         PassOn, PassBytesOn, Withdraw, StopPassingOn, SetEpoch, SetRelayKey,
                         WakeUser, NoteProgress>;

}  // namespace replica_action

using ReplicaActions = std::vector<replica_action::Any>;

}  // namespace sparcl::replication
