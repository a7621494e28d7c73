#pragma once
// The heartbeats of a process. One thread and one UDP port (for IPv4 and IPv6 each) serve all its
// communicators. One descriptor watches each other process of this machine, however many
// communicators both share.
//
// A communicator's part is a Heartbeat::Peers. The thread works on it under the service's lock,
// which it releases to sleep.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/net/heartbeat/datagram_sockets.hpp"
#include "src/net/heartbeat/heartbeat.hpp"
#include "src/net/heartbeat/heartbeat_message.hpp"
#include "src/net/heartbeat/process_identity.hpp"
#include "src/net/service_thread.hpp"

namespace sparcl::net {

// A process of this machine whose end the kernel reports.
struct ProcessEnd {
  ProcessIdentity process;
  Socket descriptor;  // readable once the process has ended
  bool has_ended = false;
};

class HeartbeatService {
 public:
  using Peers = Heartbeat::Peers;

  // The service of this process. Its thread and its port exist as long as a communicator holds it.
  static Result<std::shared_ptr<HeartbeatService>> of_process();
  // A further service, as if of another process.
  static Result<std::shared_ptr<HeartbeatService>> create();
  ~HeartbeatService() { thread_.stop(); }
  HeartbeatService(const HeartbeatService&) = delete;
  HeartbeatService& operator=(const HeartbeatService&) = delete;

  const ProcessIdentity& own() const { return own_; }
  const DatagramSockets& sockets() const { return sockets_; }
  bool is_own_process() const { return thread_.is_own_process(); }  // false in a child of fork()

  void wake() const { wake_.wake(); }

  // The thread does not touch any Peers while the lock is held. Never in a child of fork().
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // Under the lock. From add() to remove() the thread serves it.
  void add(Peers& peers);
  enum class End { kSilent, kLeft };
  void remove(Peers& peers, End end);
  // Under the lock. nullptr if the kernel cannot watch it, or enough processes are watched.
  std::shared_ptr<ProcessEnd> watch_end(const ProcessIdentity& process);
  // Under the lock: tells all peers if this process did not run for long.
  void look_for_absence(double now);

 private:
  using Key =
      std::pair<std::uint64_t, std::uint32_t>;  // a communicator's token, and the own rank in it

  HeartbeatService() = default;
  void run(const ServiceThread::Stop& stop);
  using Ends = std::vector<std::shared_ptr<ProcessEnd>>;
  Ends open_ends();
  Ends sleep(const ServiceThread::Stop& stop, const Ends& watched, double until) const;
  void receive_all(double now);
  void take(const Beat& beat, const NetAddress& from, double now);
  void take_refusals(double now);
  double turn(const Ends& ended);  // returns the time of the next turn
  double take_turns(double now);

  DatagramSockets sockets_;
  WakeEvent wake_;
  ProcessIdentity own_;

  std::mutex mutex_;  // of all below
  std::map<Key, Peers*> members_;
  std::array<Key, 1024> left_{};  // members that left last: a goodbye may be lost, and is then
                                  // repeated to peers that ask
  std::size_t next_left_ = 0;
  std::vector<std::weak_ptr<ProcessEnd>> process_ends_;
  double awake_ = 0;      // when the thread last looked at the clock
  ServiceThread thread_;  // last: ends first
};

}  // namespace sparcl::net
