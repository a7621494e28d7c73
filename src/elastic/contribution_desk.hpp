#pragma once
// Takes contributions over TCP, in a thread of its own: from workers, with their entries, and from
// branches, the aggregators below, which keep the entries. Which of them count is decided by what
// is built on it: the rounds of a root (root_desk), or the parent (branch_desk). The
// owner's thread takes what counts, and sums it.

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/aggregate/round/round.hpp"
#include "src/aggregate/sum/facts.hpp"
#include "src/aggregate/sum/waiting_parts.hpp"
#include "src/base/buffer_pool.hpp"
#include "src/base/repeated_messages.hpp"
#include "src/elastic/branch_book.hpp"
#include "src/elastic/contribution_bytes.hpp"
#include "src/elastic/trusted_contributors.hpp"
#include "src/elastic/worker_peer.hpp"
#include "src/net/run_clock.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/listener.hpp"
#include "src/replication/report_text.hpp"

namespace sparcl::elastic {

struct DeskOptions {
  std::string model_id;
  Hash128 schema_hash;
  sparse::BlockRun run;
  std::uint64_t count = 0;  // elements
  aggregate::RoundOptions round;
  std::uint64_t first_round = 1;
  aggregate::ScreenOptions screen;
  bool sums_at_once = true;      // else once all contributions of a round are known
  bool sums_weights = false;     // with the weights at each element
  std::uint64_t held_bytes = 0;  // of contributions that nobody has taken: more are asked for later
  std::size_t max_workers = 4096;
  double silence_s = 5;  // after which a worker counts as stopped or cut off
  std::string results;   // address of the publisher of results, for workers
  replication::ServerSecurity security;
  TrustedContributors contributors;  // a root's
  std::shared_ptr<const aggregate::WaitingParts::Held>
      waiting;  // what its owner keeps; may be null
};

// Of a few dense contributions.
std::uint64_t default_held_bytes(std::uint64_t elements);

// A contribution that counts.
struct Arrival {
  aggregate::Listed listed;
  aggregate::ContributionFacts facts;
  float clip = 1;  // if sums are made at once
  Buffer part;     // empty: a branch has the entries
  DataType type = DataType::kFloat32;
  std::uint64_t bytes = 0;  // that came here

  bool is_here() const { return part.size() > 0; }
  std::uint64_t in_round() const { return listed.id.round + listed.rounds_late; }
};

// A number for people. Whoever knows the worker's own number could enroll in its place.
std::string shown_worker(aggregate::WorkerId worker);

class ContributionDesk {
 public:
  ContributionDesk(const ContributionDesk&) = delete;
  ContributionDesk& operator=(const ContributionDesk&) = delete;

  const std::string& address() const { return address_; }
  bool is_own_process() const { return thread_.is_own_process(); }
  // JSON (docs/reference/protocol.md).
  std::string status() const;

 protected:
  // A worker that takes part.
  struct Member {
    aggregate::WorkerId worker = 0;
    aggregate::Seat seat;
    std::string name;
    WorkerPeer* peer = nullptr;  // its own connection, or that of the branch that has it
    Join said{};
    bool is_awaited = true;  // else not until its next contribution
  };
  // A contribution that has come whole.
  struct Given {
    aggregate::WorkerId worker = 0;
    Offered offered;
    aggregate::ContributionFacts facts;
    std::uint64_t entries = 0;
    Buffer part;  // empty: the branch has it
    BranchId branch = kNoBranch;

    aggregate::ContributionId id() const { return {worker, offered.round}; }
    std::uint64_t bytes_here() const { return branch == kNoBranch ? offered.bytes : 0; }
  };
  using Lock = std::unique_lock<std::mutex>;

  ContributionDesk(const kernels::KernelSet& kernels, DeskOptions options);
  ~ContributionDesk() = default;  // stop() has been called
  Status start(replication::Listener listener);
  void stop() { (void)thread_.stop(); }  // says goodbye to the workers

  // --- what is built on it: called with the mutex held

  virtual Status check_open() const { return {}; }  // why nobody takes part now
  virtual Enrolled enrolled() const = 0;
  virtual std::uint64_t open_round() const = 0;
  // Whether a worker may take part. An error turns it away.
  virtual Status check_member(const Member& /*member*/) const { return {}; }
  // A worker is there. An error turns it away.
  virtual Status join(const Member& member) = 0;
  virtual void leave(const Member& member, bool is_gone) = 0;  // it is not awaited any more
  // Whether an offer of this worker may count. An error turns it away.
  virtual Status check_offer(aggregate::WorkerId /*worker*/, const Offered& /*offered*/) const {
    return {};
  }
  // The fate of a contribution whose entries are not needed.
  virtual std::optional<FateTold> find(const aggregate::ContributionId& id) const = 0;
  virtual void take(Given given) = 0;
  virtual void withdraw(const aggregate::ContributionId& id) = 0;  // its entries are lost
  virtual bool has_come(const Member& member) const = 0;        // what it gives to the open round
  virtual void turned(double now) = 0;                          // after each turn of the thread
  virtual bool look_at_files(double /*now*/) { return false; }  // before, without the mutex
  virtual replication::ReportFields report() const = 0;

  // --- for it, with the mutex held

  // To whoever gave the contribution.
  void answer(const Given& given, const Verdict& verdict);
  // To the worker, wherever it is connected now.
  void tell(aggregate::WorkerId worker, const FateTold& fate);
  void turn_away(aggregate::WorkerId worker, const Status& why);
  void note_refusal(const std::string& who, const Status& why);  // for the log and the status
  void drop_all(const Status& why);
  std::vector<Arrival> take_arrivals();
  // The sums of the branches that have entries of a round that has ended. Waits at most wait_s
  // seconds. Contributions of branches that send no sums are withdrawn. outer: the spans in which
  // sums are wanted, nullptr: all slots.
  std::vector<BranchSum> collect(Lock& lock, std::uint64_t round,
                                 const std::vector<Collect::Span>* outer,
                                 std::span<const Collect::Clip> clips, double wait_s);
  void discard(std::uint64_t round);  // nobody wants them
  WorkerPeer* branch(BranchId id);    // nullptr: it is gone

  const kernels::KernelSet& kernels_;
  const DeskOptions options_;
  std::string name_, address_;
  net::RunClock clock_;
  net::WakeEvent wake_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<aggregate::WorkerId, Member> members_;
  std::deque<Arrival> arrivals_;
  BranchBook book_;
  std::uint64_t life_ = 0;        // changes when all that is known becomes void
  std::uint64_t held_bytes_ = 0;  // of arrivals, and of what is coming
  RepeatedMessages refusals_, departures_;
  std::uint64_t refused_connections_ = 0;
  std::string last_refusal_;
  double refused_at_ = 0;

 private:
  void serve(const net::ServiceThread::Stop& stop);
  void turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries);
  void accept_all(double now);
  bool make_place(const std::string& host, bool (WorkerPeer::*is_of_kind)() const, double now);
  void step(WorkerPeer& peer, double now);
  Status handle(WorkerPeer& peer, replication::MessageType type, double now);
  Status handle_worker(WorkerPeer& peer, replication::MessageType type, double now);
  Status handle_branch(WorkerPeer& peer, replication::MessageType type, double now);
  Status enroll(WorkerPeer& peer);
  Status join_worker(WorkerPeer& peer);
  Status add_member(Member member);
  Status try_join(const Member& member);
  void rest(WorkerPeer& peer, aggregate::WorkerId worker);
  Status take_member(WorkerPeer& peer);
  Status take_given(WorkerPeer& peer);
  Status take_subtree(WorkerPeer& peer, double now);
  Status take_subtree_bytes(WorkerPeer& peer, double now);
  Status take_collected(WorkerPeer& peer);
  Status take_withdrawn(WorkerPeer& peer);
  Status take_offer(WorkerPeer& peer);
  Status take_bytes(WorkerPeer& peer, double now);
  Result<Buffer> take_part(WorkerPeer& peer, double now);
  bool ask_for_bytes(WorkerPeer& peer);  // false: there is no room
  void serve_waiting(double now);
  void free_memory(WorkerPeer* slowest, const WorkerPeer& waiting, double now);
  void ask_for_sums(WorkerPeer& peer, std::uint64_t round, std::span<const Collect::Clip> clips,
                    double wait_s);
  bool has_all_sums(const WorkerPeer& peer) const;
  bool is_collecting(std::uint64_t round);
  std::string status_locked() const;
  void lose(BranchId branch);
  void take_back(const aggregate::Listed& lost);
  void call_back(aggregate::WorkerId worker, BranchId branch);
  void tick(WorkerPeer& peer, double now);
  void end_of(WorkerPeer& peer);
  void bury();
  Member* member_of(WorkerPeer& peer, aggregate::WorkerId worker);
  void expel(aggregate::WorkerId worker, const Status& why);
  void check_members();

  replication::Listener listener_;
  double accept_from_ = 0;  // descriptors ran out: no connection is taken before
  BufferPool buffers_;
  double freed_at_ = 0;  // an upload was ended for the memory that it held
  bool must_check_members_ = false;
  std::vector<std::unique_ptr<WorkerPeer>> peers_;
  BranchId last_branch_ = kNoBranch;
  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::elastic
