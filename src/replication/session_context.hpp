#pragma once
// The state that the sessions of one server share: the model, its feeds, and the limits.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/replication/fan_out.hpp"
#include "src/replication/identities.hpp"
#include "src/replication/message_link.hpp"
#include "src/replication/peer_budget.hpp"
#include "src/replication/peer_counts.hpp"
#include "src/replication/peer_scores.hpp"
#include "src/replication/peer_warnings.hpp"
#include "src/replication/receipt_book.hpp"
#include "src/replication/repair.hpp"
#include "src/replication/replica_slots.hpp"
#include "src/replication/secret_ring.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class Session;
class SessionMachine;

// The updates for replicas of one list of tensors, as sessions see them.
struct SessionFeed {
  Hash128 schema_hash;
  std::uint64_t tensor_bytes = 0;
  const UpdateStore* store = nullptr;
  FanOut* fan_out = nullptr;  // a publisher's; nullptr: of a replica that passes updates on
  // Asks for an anchor that the store does not have. Empty: no anchor is made here.
  std::function<void()> request_anchor;
  // Asks for one update from `base` to the newest version, which may be smaller than those between
  // them. Empty: none is made here.
  std::function<void(const HeldVersion& base)> request_composed;
  // Asks for the blocks of a replica that differ from a version; the repair receives them. Empty:
  // none are made here.
  std::function<void(const RepairRef& repair)> request_repair;
  // An anchor that this replica makes of what it holds, for a child that was sent here for it;
  // nullptr: it is being made. Nothing, or empty: there will be none.
  std::function<std::optional<UpdateRef>()> give;
  // The digest of the version with this state hash; if there is none, of version `nearly` or the
  // newest. Empty: no digests are made here.
  std::function<IdentityAnswer(const Hash128& hash, const std::optional<std::uint64_t>& nearly)>
      identify;
  std::uint64_t block_count = 0;  // of these tensors, if repairs are made
};
using SessionFeedRef = std::shared_ptr<const SessionFeed>;

// The files beside the shards, as replicas are told of them.
struct SideFilesAnswer {
  Digest256 digest;
  WholeMessage all;   // with the files
  WholeMessage none;  // for a replica that has them
};
using SideFilesRef = std::shared_ptr<const SideFilesAnswer>;

struct SessionContext {
  std::string model_id;
  std::uint64_t epoch = 0;
  std::optional<WholeMessage> model_reply;  // what is published; nothing: not told here
  SideFilesRef side_files;                  // of the newest version; nullptr: not told here
  net::TlsEndpointRef tls;                  // nullptr: connections are in the clear
  // Signs an encrypted connection, whose exporter it is given; nothing: the peer's secret is not
  // accepted any more. Empty: nothing is signed here.
  std::function<std::optional<SessionProof>(PeerTag peer, std::span<const std::byte> exporter)>
      prove;
  // The publisher's signatures of a text. Empty: there is no publisher here.
  std::function<trust::Signatures(std::span<const std::byte> text)> sign;
  std::string name;        // of this process: "host h1, pid 4711"
  double handshake_s = 5;  // an unauthenticated connection's time for its HELLO
  double silence_s = 5;    // after which a peer counts as stopped or cut off
  double alive_s = 1e9;    // between two signs of life, at most
  std::size_t max_replicas = SIZE_MAX;
  std::uint64_t copy_bytes = 0;  // of all tensors
  // A version is being encoded: copies of all bytes yield for a moment. May be empty.
  std::function<bool()> is_encoding;
  // Ends the session of another replica to make room for `asker`; false: there is none. May be
  // empty.
  std::function<bool(const SessionMachine& asker)> evict;
  std::string replica_limit_reason;  // "its descriptors allow: ulimit -n"
  bool shares_memory = false;        // with replicas of this host
  // The feed for replicas with these tensors; nullptr: there is none.
  std::function<SessionFeedRef(const Hash128& schema_hash)> find_feed;
  // Learns what a replica has applied last. An error says why the replica cannot be served. Empty:
  // it does not matter here.
  std::function<Status(const LatestHeld& latest)> learn_epoch;
  // The limit for a list of tensors that has no feed yet. The session asks for the list and waits
  // until the publisher has looked at it (list(), take_feed()). Empty: no list is asked for.
  std::function<std::size_t()> max_schema_bytes;
  // Ends other sessions until unproven sessions are within their part of the budget;
  // false: `asker` must end. Empty: no session ends for another.
  std::function<bool(const Session& asker)> make_room;
  std::function<std::string()> status_report;                           // JSON, for a STATUS_QUERY
  std::function<const SessionMachine*(std::uint64_t id)> find_session;  // a publisher's
  std::function<void(const SessionMachine& session)> on_arrival;  // of a replica; may be empty
  // A replica has said goodbye: the version that it held counts from then on. May be empty.
  std::function<void(const SessionMachine& session)> on_departure;
  std::string closed;  // why there is nothing for replicas here; empty: there is
  std::shared_ptr<ReceiptBook> receipts = std::make_shared<ReceiptBook>();
  std::shared_ptr<PeerWarnings> warnings = std::make_shared<PeerWarnings>();
  std::shared_ptr<PeerCounts> counts = std::make_shared<PeerCounts>();
  std::shared_ptr<PeerScores> scores = std::make_shared<PeerScores>();
  PeerBudgetRef budget = std::make_shared<PeerBudget>();
  std::shared_ptr<ReplicaSlots> slots = std::make_shared<ReplicaSlots>();
};

// RemoteError: the peer may try again.
Status no_room(const PeerBudget& budget);

// Counts of a server's sessions, never too low.
struct SessionCounts {
  std::size_t replicas = 0;
  std::size_t waiting = 0;  // unauthenticated, or with an answer that is still going out
};

}  // namespace sparcl::replication
