#pragma once
// A publisher's end of one connection: brings the replica at the other end to the newest version, one update after the other.
//
//   stranger ── hello ──► replica ── bye, silence, corrupt ──► over
//                           │  idle ── offer ──► offered ── request ──► sending ── commit ──► idle
//                           │                        └──── nack ─────► idle, by an anchor
//
// At most kMostAhead updates are under way that the replica does not hold yet: one that does not come to apply them costs no more.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/replication/message_link.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

// What all sessions of a publisher share.
struct SessionContext {
  std::string model_id;
  Hash128 schema_hash;
  std::uint64_t epoch = 0;
  std::vector<std::byte> model_reply;  // what is published, serialised
  std::string name;                    // of this process: "host h1, pid 4711"
  double handshake_s = 5;              // a stranger's time
  double silence_s = 5;                // after which a peer counts as stopped or cut off
  const UpdateStore* store = nullptr;
  std::function<void()> request_anchor;        // one is needed that the store does not have: it will be made
  std::function<std::string()> status_report;  // JSON, for who asks
};

class Session {
 public:
  Session(Socket socket, std::string from, const SessionContext& context, double now);

  int fd() const { return link_.fd(); }
  short events() const { return link_.events(); }
  bool is_over() const { return phase_ == Phase::kOver; }
  bool is_stranger() const { return phase_ == Phase::kStranger; }
  double born() const { return born_; }

  // Reads what has come and answers; sends on.
  void step(double now);
  // By the clock alone.
  void tick(double now);
  void leave();  // says goodbye
  void drop(Status why);

  // For the publisher's counts and the status report.
  const std::string& replica() const { return replica_; }  // its name, and where it comes from
  const std::optional<HeldVersion>& held() const { return held_; }
  bool has_confirmed() const { return has_confirmed_; }  // that it holds a version of this publisher's
  std::uint64_t staged_version() const { return staged_version_; }
  std::uint64_t bytes_sent() const { return link_.bytes_sent(); }
  std::uint64_t refused() const { return refused_; }
  const char* state() const;

 private:
  enum class Phase : std::uint8_t { kStranger, kReplica, kLeaving, kOver };
  static constexpr int kMostAhead = 2;

  void read(double now);
  Status handle();
  Status take_hello();
  Status take_request();
  Status take_ack();
  Status take_nack();
  void offer_next();
  void send_on();
  void refuse(Status why);

  const SessionContext& context_;
  MessageLink link_;
  Phase phase_ = Phase::kStranger;
  std::string replica_;
  double born_;
  double heard_;
  double spoke_;
  double alive_period_s_ = 1;

  std::optional<HeldVersion> held_;  // by its own word
  bool has_confirmed_ = false;
  HeldVersion tip_;  // what it will hold once it has applied all that it was sent
  std::uint64_t staged_version_ = 0;
  UpdateRef update_;  // offered, or being sent
  bool is_requested_ = false;
  std::uint64_t next_byte_ = 0;
  int ahead_ = 0;  // updates that it was sent whole and does not hold yet
  bool needs_anchor_ = false;
  std::uint64_t refused_ = 0;  // updates, by it
  int refused_in_a_row_ = 0;
};

}  // namespace sparcl::replication
