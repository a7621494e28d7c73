#pragma once
// Wraps one rank's transport and injects the faults of a plan. Faults of messages affect the
// messages that this rank sends.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/transport/fault/fault_plan.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

// One decision, for the replay of a failure.
struct FaultEvent {
  Fault fault = Fault::kDrop;
  std::uint64_t operation = 0;  // of this rank, from 0
  int peer = -1;
  Channel channel;
  friend bool operator==(const FaultEvent&, const FaultEvent&) = default;
};

class FaultTransport final : public Transport {
 public:
  FaultTransport(std::unique_ptr<Transport> inner, FaultPlan plan);

  // Called once when the plan kills this rank. The hook tells the inner world, which decides
  // whether the peers see a death or silence.
  void on_kill(std::function<void()> hook) { on_kill_ = std::move(hook); }

  std::string describe() const { return plan_.describe(); }
  const std::vector<FaultEvent>& trace() const { return trace_; }
  std::string describe_trace() const;
  bool is_killed() const { return killed_; }

  // Held messages leave in progress() only: a driver must continue with this rank until there are
  // none.
  bool holds_back() const { return !killed_ && !held_.empty(); }
  // The latest time at which this rank must continue; infinity for never. own_deadline: its
  // program's. For schedulers with virtual time.
  double next_wake(double own_deadline) const;

  int rank() const override { return rank_; }
  int size() const override { return inner_->size(); }
  std::string_view name() const override { return inner_->name(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::string describe_peer(int peer) const override { return inner_->describe_peer(peer); }

  OperationRef send(int peer, Channel channel, Buffer message) override;
  OperationRef receive(int peer, Channel channel, Buffer space) override;
  void cancel(const OperationRef& operation) override;
  Status progress(std::vector<OperationRef>& completed) override;
  int culprit() const override { return killed_ ? -1 : inner_->culprit(); }
  void idle(std::uint64_t turns, double until_seconds) override;
  double now() override;
  void signal(int peer, const Signal& signal) override;
  bool poll_signal(Signal& signal) override;
  void close(Channel channel) override;

 private:
  using Line = std::pair<int, Channel>;  // messages to one peer on one channel, in order

  struct HeldOperation final : Operation {};
  using HeldRef = std::shared_ptr<HeldOperation>;

  struct Held {
    Outgoing outgoing;
    HeldRef operation;
    double release_at = 0;
    std::uint64_t release_at_message = 0;  // 0: by time only
  };

  struct Finished {
    HeldRef operation;
    Status status;
  };

  bool strikes(const FaultRule& rule, std::uint64_t index, SeededRandom& random) const;
  void count_operation(int peer, Channel channel);
  bool apply_message_faults(int peer, Channel channel, Outgoing& outgoing);
  const FaultRule* cut_by(int peer) const;  // nullptr: messages to this peer arrive
  void pass_signal(int peer, const Signal& signal);
  void record(Fault fault, int peer, Channel channel);
  void kill();
  bool is_stopped();
  Status killed_error() const;
  OperationRef refused(Operation::Kind kind, int peer, Channel channel, Buffer buffer) const;
  void release_due();
  void post(Line line, const Held& held);
  void finish(const HeldRef& held, Status status);
  std::vector<Finished>::iterator find_finished(const OperationRef& operation);

  std::unique_ptr<Transport> inner_;
  FaultPlan plan_;
  int rank_;
  std::function<void()> on_kill_;
  std::vector<FaultEvent> trace_;

  std::uint64_t operations_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t lost_on_cut_ = 0;
  std::map<Line, std::uint64_t> line_messages_;
  bool killed_ = false;
  std::optional<double> stopped_until_;
  double stopped_at_ = 0;
  std::vector<std::pair<int, Signal>> held_signals_;  // of a stopped rank

  std::map<Line, std::deque<Held>> held_;
  std::unordered_map<const Operation*, std::pair<OperationRef, HeldRef>>
      posted_;                      // by inner operation; without one: swallowed
  std::vector<Finished> finished_;  // not yet reported
  std::vector<OperationRef> inner_completed_;
};

}  // namespace sparcl::transport
