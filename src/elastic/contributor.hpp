#pragma once
// A worker's connection to its aggregator, in a thread of its own: it connects, and connects again
// after each failure, and keeps every contribution until its round was committed.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/repeated_messages.hpp"
#include "src/elastic/contribution_bytes.hpp"
#include "src/net/host_port.hpp"
#include "src/net/run_clock.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/message_link.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::elastic {

struct ContributorOptions {
  std::string model_id;
  Hash128 schema_hash;
  std::string name;       // "host h1, pid 4711"
  std::string addresses;  // "HOST:PORT", or several with commas between them: one after the other
  double silence_s = 5;   // after which the aggregator counts as stopped or cut off
  replication::ClientSecurity security;
};

class Contributor {
 public:
  static constexpr std::size_t kMaxPending = 8;  // contributions without a fate

  static Result<std::unique_ptr<Contributor>> create(const ContributorOptions& options);
  ~Contributor();
  Contributor(const Contributor&) = delete;
  Contributor& operator=(const Contributor&) = delete;
  bool is_own_process() const { return thread_.is_own_process(); }

  // The address of the publisher of results. Waits for the aggregator; Timeout and errors of the
  // last try say why there is none.
  Result<std::string> results_address(double seconds);

  // Before contribute(). The round is then one to which this worker has contributed. InvalidUsage:
  // it is already.
  Status claim(std::uint64_t round);
  // False: kMaxPending contributions have no fate yet.
  bool has_room();
  // The aggregator counts rounds anew: what is pending will never count.
  void begin_anew();
  // Queues it, and returns.
  void contribute(std::uint64_t round, double weight, Packed packed);

  // Contributions that were refused since the last call: their worker adds them to its residual.
  std::vector<Packed> take_refused();

  // Waits until no contribution is without a fate. Meanwhile, and until the next contribution, no
  // round waits for this worker.
  Status wait_all(double seconds);

  struct Counts {
    std::uint64_t offered = 0, committed = 0, late = 0, refused = 0, deferred = 0, connects = 0;
  };
  Counts counts() const;
  // Why there is no connection; ok: there is one.
  Status trouble() const;

 private:
  struct Pending {
    std::uint64_t round = 0;
    Packed packed;
    bool is_offered = false;  // over this connection
  };

  explicit Contributor(const ContributorOptions& options);
  void run(const net::ServiceThread::Stop& stop);
  void serve(const net::ServiceThread::Stop& stop);
  Status serve_one(const net::HostPort& where, const net::ServiceThread::Stop& stop);
  Result<replication::MessageLink> connect(const net::HostPort& where,
                                           const net::ServiceThread::Stop& stop);
  Status exchange(replication::MessageLink& link, const net::HostPort& where,
                  const net::ServiceThread::Stop& stop);
  Status handle(replication::MessageLink& link, const net::HostPort& where);
  Status take_enrolled(std::span<const std::byte> content, const net::HostPort& where);
  Status take_fate(std::span<const std::byte> content);
  void send_bytes(replication::MessageLink& link, std::uint64_t round);
  void offer_next(replication::MessageLink& link);
  Pending* find(std::uint64_t round);
  void pause(double seconds, const net::ServiceThread::Stop& stop) const;
  void note_trouble(const Status& why);

  const ContributorOptions options_;
  std::vector<net::HostPort> addresses_;
  aggregate::WorkerId worker_;
  net::RunClock clock_;
  net::WakeEvent wake_;
  RepeatedMessages troubles_;
  bool is_proven_ = false;        // the thread's: the other side has the key that the secret names
  bool is_enrolled_ = false;      // the thread's
  bool has_said_rest_ = false;    // the thread's: over this connection
  std::uint64_t in_transit_ = 0;  // the thread's: the round whose offer has no answer; 0: none
  std::uint32_t silence_ms_ = 0;  // the aggregator's
  double early_until_ = 0;        // the thread's

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::string results_;  // address
  Status trouble_ = Status(Code::kTimeout, "no aggregator has answered yet");
  std::deque<Pending> pending_;
  std::uint64_t last_round_ = 0;  // that it has contributed to
  bool rests_ = false;            // no round is to wait for it
  std::vector<Packed> refused_;
  Counts counts_;

  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::elastic
