#pragma once
// One rank's transport in a loopback world.

#include <memory>
#include <vector>

#include "src/transport/loopback/loopback_core.hpp"

namespace sparcl::transport {

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackCore> core, int rank)
      : core_(std::move(core)), rank_(rank) {}
  ~LoopbackTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return core_->size(); }
  std::string_view name() const override { return "loopback"; }
  const Capabilities& capabilities() const override { return core_->capabilities(); }
  std::string describe_peer(int peer) const override;

  OperationRef send(int peer, Channel channel, Buffer message) override;
  OperationRef receive(int peer, Channel channel, Buffer space) override;
  void cancel(const OperationRef& operation) override;
  Status progress(std::vector<OperationRef>& completed) override;
  void idle(std::uint64_t turns, double until_seconds) override;
  double now() override { return core_->now(); }
  void signal(int peer, const Signal& signal) override;
  bool poll_signal(Signal& signal) override;
  void close(Channel channel) override { core_->close(rank_, channel); }

 private:
  Status health() const;
  bool refuse(Operation& operation) const;
  void sleep(loopback::Endpoint& own, double until_seconds);

  std::shared_ptr<LoopbackCore> core_;
  int rank_;
  bool killed_ = false;
  std::vector<loopback::Completion> scratch_;
};

}  // namespace sparcl::transport
