#pragma once
// A transport that counts the bytes that its rank sends to each peer.

#include <memory>
#include <utility>
#include <vector>

#include "src/transport/transport.hpp"

namespace sparcl::test {

class CountingTransport final : public transport::Transport {
 public:
  CountingTransport(std::unique_ptr<transport::Transport> inner,
                    std::vector<std::uint64_t>& bytes_to)
      : inner_(std::move(inner)), bytes_to_(bytes_to) {
    bytes_to_.assign(static_cast<std::size_t>(inner_->size()), 0);
  }

  transport::OperationRef send(int peer, transport::Channel channel, Buffer message) override {
    bytes_to_[static_cast<std::size_t>(peer)] += message.size();
    return inner_->send(peer, channel, std::move(message));
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view name() const override { return inner_->name(); }
  const transport::Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::string describe_peer(int peer) const override { return inner_->describe_peer(peer); }
  transport::OperationRef receive(int peer, transport::Channel channel, Buffer space) override {
    return inner_->receive(peer, channel, std::move(space));
  }
  void cancel(const transport::OperationRef& operation) override { inner_->cancel(operation); }
  Status progress(std::vector<transport::OperationRef>& completed) override {
    return inner_->progress(completed);
  }
  int culprit() const override { return inner_->culprit(); }
  void idle(std::uint64_t turns, double until_seconds) override {
    inner_->idle(turns, until_seconds);
  }
  double now() override { return inner_->now(); }
  void leave_waiting() override { inner_->leave_waiting(); }
  void signal(int peer, const transport::Signal& signal) override { inner_->signal(peer, signal); }
  void flush_signals(double seconds) override { inner_->flush_signals(seconds); }
  bool poll_signal(transport::Signal& signal) override { return inner_->poll_signal(signal); }
  void close(transport::Channel channel) override { inner_->close(channel); }
  Status connect(double timeout_s) override { return inner_->connect(timeout_s); }

 private:
  std::unique_ptr<transport::Transport> inner_;
  std::vector<std::uint64_t>& bytes_to_;
};

}  // namespace sparcl::test
