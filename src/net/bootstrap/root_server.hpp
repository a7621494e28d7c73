#pragma once
// The work of the root's thread: takes connections, collects the ranks' blobs, answers all. Foreign
// programs that connect to its port cost a bounded number of descriptors for a bounded time.

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "src/net/bootstrap/roll_call.hpp"
#include "src/net/bootstrap/root_peer.hpp"
#include "src/net/service_thread.hpp"

namespace sparcl::net {

struct RootOptions {
  double handshake_s = 10;  // the time of an unauthenticated connection
  double linger_s = 60;     // after all answers, late ranks are told why they are late
  double note_s = 1;        // between two signs of life, which name the missing ranks
  double first_word_s =
      3;  // after the first rank: the log names the missing ranks; again after twice the time
  std::size_t max_unauthenticated = 256;  // at a time
  double evict_s = 1;  // if there are too many, the oldest is closed after this time
};

class RootServer {
 public:
  RootServer(const Secret& secret, std::vector<Socket> listeners, const RootOptions& options);

  // Returns once all ranks are answered and linger_s has passed, or at `stop`, of which waiting
  // ranks are told.
  void run(const ServiceThread::Stop& stop);

  // All ranks have their answer; only late ranks are still answered. For other threads.
  bool is_over() const { return over_.load(std::memory_order_acquire); }

 private:
  using Peers = std::vector<std::unique_ptr<RootPeer>>;

  bool turn(const ServiceThread::Stop& stop);
  double next_deadline(double now) const;
  void accept_all(const Socket& listener, double now);
  RootPeer* oldest_of_too_many() const;
  double accept_time() const;
  bool make_room(double now);
  void out_of_descriptors(int error, double now);
  void step(RootPeer& peer, double now);
  void admit(RootPeer& peer, Join join, double now);
  void look_at_clocks(double now);
  void give_note(double now);
  void give_table(double now);
  void fail(const Status& failure, double now);
  void answer_all(const RecordLine::Payload& payload, double now);
  void decide(Status for_latecomers, double now);

  Secret secret_;
  std::vector<Socket> listeners_;
  RootOptions options_;
  Peers peers_;
  RollCall roll_;
  std::optional<Status> decided_;  // once set: the answer to late ranks
  double first_join_ = 0;
  double next_note_ = 0;
  double next_word_ = 0;
  double accept_from_ = 0;  // no connection is accepted before: descriptors ran out
  double linger_until_ = 0;
  std::atomic<bool> over_ = false;
};

}  // namespace sparcl::net
