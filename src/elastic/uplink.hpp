#pragma once
// A connection to an aggregator, in a thread of its own, which connects again after each failure:
// a worker's, or a branch's. What is said over it is its user's.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/repeated_messages.hpp"
#include "src/base/seeded_random.hpp"
#include "src/elastic/worker_messages.hpp"
#include "src/net/host_port.hpp"
#include "src/net/run_clock.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/message_link.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::elastic {

struct UplinkOptions {
  std::string addresses;  // "HOST:PORT", or several with commas between them: one after the other
  Enroll enroll;          // who says so
  double silence_s = 5;   // after which the aggregator counts as stopped or cut off
  replication::ClientSecurity security;
};

// Called in the uplink's thread.
class UplinkUser {
 public:
  virtual ~UplinkUser() = default;
  // The aggregator tells what to sign. A worker queues its JOIN.
  virtual Status challenged(replication::MessageLink& link) {
    return replication::out_of_place(link.type());
  }
  // A connection takes part. results: the address of the publisher of results.
  virtual void connected(const Enrolled& enrolled, const std::string& results) = 0;
  // Queues what there is to say. Often.
  virtual void speak(replication::MessageLink& link) = 0;
  // A message. An error ends the connection.
  virtual Status hear(replication::MessageLink& link) = 0;
  // Rounds before this one have ended.
  virtual void opened(std::uint64_t round) = 0;
  // The connection has ended, or none came about.
  virtual void lost(const Status& why) = 0;
};

class Uplink {
 public:
  // user: outlives this. It is called from start() on.
  static Result<std::unique_ptr<Uplink>> create(UplinkOptions options, UplinkUser& user);
  Status start();
  void stop() { (void)thread_.stop(); }
  ~Uplink() { stop(); }
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  void wake() { wake_.wake(); }                          // there is something to say
  const net::RunClock& clock() const { return clock_; }  // the thread's
  bool is_own_process() const { return thread_.is_own_process(); }

  // The address of the publisher of results. Waits for the aggregator; Timeout and errors of the
  // last try say why there is none.
  Result<std::string> results_address(double seconds);
  // Why there is no connection; ok: there is one.
  Status trouble() const;
  // The last refusal for the want of a trusted key or secret; ok: none since it took part last.
  Status refusal() const;
  std::uint64_t connections() const;

 private:
  Uplink(UplinkOptions options, UplinkUser& user);
  void run(const net::ServiceThread::Stop& stop);
  void serve(const net::ServiceThread::Stop& stop);
  Status serve_one(const net::HostPort& where, const net::ServiceThread::Stop& stop);
  Result<replication::MessageLink> connect(const net::HostPort& where,
                                           const net::ServiceThread::Stop& stop);
  Status exchange(replication::MessageLink& link, const net::HostPort& where,
                  const net::ServiceThread::Stop& stop);
  Status receive_all(replication::MessageLink& link, const net::HostPort& where);
  Status closed_early(const Status& why) const;
  Status handle(replication::MessageLink& link, const net::HostPort& where);
  Status take_enrolled(std::span<const std::byte> content, const net::HostPort& where);
  void pause(double seconds, const net::ServiceThread::Stop& stop);
  Status take_refusal(std::span<const std::byte> content, const net::HostPort& where);
  void note_trouble(const Status& why);

  const UplinkOptions options_;
  UplinkUser& user_;
  std::vector<net::HostPort> addresses_;
  net::RunClock clock_;
  net::WakeEvent wake_;
  // The thread's.
  RepeatedMessages troubles_;
  SeededRandom random_;     // for pauses
  bool is_proven_ = false;  // the other side has the key that the secret names
  bool has_said_who_ = false;
  bool is_challenged_ = false;  // a worker, by NONCE
  bool is_enrolled_ = false;
  std::uint32_t silence_ms_ = 0;  // the aggregator's

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::string results_;  // address
  Status refusal_;
  Status trouble_ = Status(Code::kTimeout, "no aggregator has answered yet");
  std::uint64_t connections_ = 0;

  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::elastic
