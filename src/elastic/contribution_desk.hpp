#pragma once
// Takes the contributions of workers over TCP, in a thread of its own, and runs the rounds
// (src/aggregate/round). The owner's thread takes what counts, sums it, and says how a round ended.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/aggregate/round/round.hpp"
#include "src/aggregate/sum/facts.hpp"
#include "src/base/buffer_pool.hpp"
#include "src/elastic/contribution_bytes.hpp"
#include "src/elastic/worker_peer.hpp"
#include "src/net/run_clock.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/listener.hpp"

namespace sparcl::elastic {

struct DeskOptions {
  std::string model_id;
  Hash128 schema_hash;
  sparse::BlockRun run;
  std::uint64_t count = 0;  // elements
  aggregate::RoundOptions round;
  std::uint64_t first_round = 1;
  // Contributions with a value that is NaN or infinite are refused.
  bool refuses_non_finite = false;
  std::uint64_t held_bytes = 0;  // of contributions that nobody has taken: more are asked for later
  std::size_t max_workers = 4096;
  double silence_s = 5;  // after which a worker counts as stopped or cut off
  std::string results;   // address of the publisher of results, for workers
  replication::ServerSecurity security;
};

// A contribution that counts.
struct Arrival {
  aggregate::Listed listed;
  aggregate::ContributionFacts facts;
  Buffer part;
  DataType type = DataType::kFloat32;

  std::uint64_t in_round() const { return listed.id.round + listed.rounds_late; }
};

// A contribution that a round before this life has counted.
struct Remembered {
  aggregate::ContributionId id;
  std::uint64_t in_round = 0;
};

class ContributionDesk {
 public:
  static Result<std::unique_ptr<ContributionDesk>> create(const kernels::KernelSet& kernels,
                                                          DeskOptions options,
                                                          replication::Listener listener,
                                                          std::span<const Remembered> past);
  // Says goodbye to the workers.
  ~ContributionDesk();
  ContributionDesk(const ContributionDesk&) = delete;
  ContributionDesk& operator=(const ContributionDesk&) = delete;

  const std::string& address() const { return address_; }
  bool is_own_process() const { return thread_.is_own_process(); }

  // What has come since the last call. is_closed: all of the open round has been given, and
  // committed() or failed() must follow.
  struct Turn {
    std::vector<Arrival> arrivals;
    bool is_closed = false;
    aggregate::Closing closing;  // if it is closed
  };
  // Waits for something new, at most so long.
  Turn wait(double seconds);
  // Workers are told of their contributions.
  void committed();
  void failed(const std::string& reason);

  std::uint32_t listed() const;  // in the open round, on time
  // JSON (docs/reference/protocol.md).
  std::string status() const;

 private:
  ContributionDesk(const kernels::KernelSet& kernels, DeskOptions options);
  void serve(const net::ServiceThread::Stop& stop);
  void turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries);
  void accept_all(double now);
  void step(WorkerPeer& peer, double now);
  Status handle(WorkerPeer& peer, replication::MessageType type, double now);
  Status enroll(WorkerPeer& peer);
  Status take_offer(WorkerPeer& peer);
  Status take_bytes(WorkerPeer& peer, double now);
  void ask_for_bytes(WorkerPeer& peer);
  void tick(WorkerPeer& peer, double now);
  void end_of(WorkerPeer& peer);
  void tell(const aggregate::ContributionId& id, const aggregate::Answer& answer);
  void tell_closing(const aggregate::Closing& closing, const aggregate::Answer& answer);
  std::string status_locked() const;

  const kernels::KernelSet& kernels_;
  const DeskOptions options_;
  std::string name_, address_;
  replication::Listener listener_;
  net::RunClock clock_;
  net::WakeEvent wake_;
  double accept_from_ = 0;  // descriptors ran out: no connection is taken before
  BufferPool buffers_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  aggregate::Round round_;
  std::vector<std::unique_ptr<WorkerPeer>> peers_;
  std::deque<Arrival> arrivals_;
  std::uint64_t held_bytes_ = 0;    // of arrivals, and of what is coming
  std::uint64_t told_closing_ = 0;  // wait() has given the end of this round
  struct Counts {
    std::uint64_t committed = 0, late = 0, refused = 0;  // contributions
    std::uint64_t expelled = 0;                          // workers, each time
  } counts_;

  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::elastic
