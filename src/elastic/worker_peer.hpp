#pragma once
// An aggregator's end of the connection to a worker, to a branch, or to a program that
// asks for the status.

#include <optional>
#include <string>
#include <vector>

#include "src/elastic/branch_book.hpp"
#include "src/net/net_address.hpp"
#include "src/replication/message_link.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::elastic {

// A contribution whose bytes are coming.
struct Incoming {
  Offered offered;
  double offered_at = 0;
  bool is_wanted = false;         // its bytes were asked for
  double wanted_at = 0;           // when they were asked for
  double moved_at = 0;            // when some of them came last
  std::uint64_t moved_heard = 0;  // what the connection had heard then
  std::vector<Buffer> pieces;
  std::uint64_t have = 0;
  std::vector<model::Digest256> leaves;  // of the pieces, each of a chunk

  bool is_whole() const { return have == offered.bytes; }
  // Corrupt: the bytes are not those of the digest.
  Result<Buffer> whole() const;
};

// A branch's sum.
struct BranchSum {
  SubtreeTold told;
  Buffer part;
};

// The sums that a branch was asked for, and those that it has sent so far.
struct AskedSums {
  std::uint64_t round = 0;
  std::vector<Collect::Span> spans;
  std::vector<BranchSum> sums;
  SubtreeTold coming;
  bool is_over = false;
};

class WorkerPeer {
 public:
  WorkerPeer(net::Socket socket, std::optional<net::NetAddress> from,
             const replication::ServerSecurity& security, double now);

  int fd() const { return link_.fd(); }
  short events() const;
  bool has_unread() const { return link_.has_unread(); }
  bool is_over() const { return !link_.is_open(); }
  bool is_branch() const { return branch != kNoBranch; }
  bool is_enrolled() const { return worker.has_value() || is_branch(); }
  bool is_stranger() const { return !enroll && !is_enrolled(); }
  bool is_joining() const { return enroll.has_value() && !is_enrolled(); }  // JOIN must follow

  // The next message, once the connection is secured. Nothing: no more has come, or it is over.
  std::optional<replication::MessageType> receive(double now);
  std::span<const std::byte> content() { return link_.content(); }
  const replication::ChunkHead& chunk() const { return link_.chunk(); }
  std::size_t chunk_bytes() const { return link_.chunk_bytes(); }
  // Takes the chunk that has come. Corrupt: it is out of place.
  Status take_chunk(double now);
  // The bytes of `incoming` are on their way from now on.
  void begin_incoming(double now);
  // Who may ask for what: by secrets or certificates.
  bool may(trust::Role role) const { return !role_ || *role_ >= role; }

  template <class Message>
  void send(replication::MessageType type, const Message& message) {
    link_.queue(type, std::span<const std::byte>(serialise(message)));
  }
  void send_text(replication::MessageType type, std::string_view text);
  // Tells why, and ends the connection.
  void refuse(const Status& why);
  void leave();  // says goodbye
  void drop(Status why);
  // Sends what waits, and signs of life with the open round.
  void tick(std::uint64_t round, double now);

  double silent_s(double now) const { return now - heard_; }
  // Of one that does not take part: since it connected, or since ENROLL.
  double outside_s(double now) const { return now - (is_joining() ? enrolled_at : born_); }
  std::uint64_t bytes_received() const { return link_.bytes_received(); }
  std::string who() const;
  std::string host() const;  // PeerScores::key_of() its address
  const Status& why_over() const { return why_; }

  static constexpr std::uint64_t kMinMove = 16 << 10;  // bytes; heuristic

  std::optional<Enroll> enroll;               // what a worker has said of itself
  double enrolled_at = 0;                     // when it said so
  std::optional<aggregate::WorkerId> worker;  // has joined as a worker
  BranchId branch = kNoBranch;                // enrolled as one
  std::string name;
  std::uint32_t silence_ms = 0;  // the other side's own
  std::optional<Incoming> incoming;
  bool has_ended = false;  // the desk has dealt with its end

  std::optional<AskedSums> asked;

 private:
  bool secure();
  void note_heard(double now);

  const replication::ServerSecurity& security_;
  replication::MessageLink link_;
  std::optional<net::NetAddress> from_;
  std::optional<trust::Role> role_;
  bool is_secured_ = false;
  double born_, heard_, spoke_;
  Status why_;
};

}  // namespace sparcl::elastic
