#pragma once
// The MPI transport. MPI_THREAD_SINGLE suffices, because no thread of the library calls MPI. It
// uses only functions that SMPI has. The format of messages: head_format.hpp.

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/heartbeat/heartbeat.hpp"
#include "src/net/heartbeat/watch_clock.hpp"
#include "src/transport/mpi/channel_tags.hpp"
#include "src/transport/mpi/head_format.hpp"
#include "src/transport/mpi/mpi_idler.hpp"
#include "src/transport/mpi/mpi_signals.hpp"
#include "src/transport/mpi/mpi_state.hpp"
#include "src/transport/mpi/request_table.hpp"
#include "src/transport/recently_closed.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

struct MpiOptions {
  std::optional<net::HeartbeatOptions> heartbeat = {};  // never in simulation
  // Both must be the same on all ranks; tests use small values.
  std::size_t eager_bytes = 2032;                  // up to this size a message is one MPI message
  std::size_t piece_bytes = std::size_t{1} << 30;  // of the body of a larger one; below 2^31
};

class MpiTransport final : public Transport {
 public:
  // Collective over comm, which is duplicated; the caller keeps its own.
  static Result<std::unique_ptr<MpiTransport>> create(MPI_Comm comm,
                                                      const MpiOptions& options = {});

  // Not collective, and does not wait: buffers that MPI still holds stay allocated.
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::string_view name() const override { return "mpi"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string describe_peer(int peer) const override;

  OperationRef send(int peer, Channel channel, Buffer message) override;
  OperationRef receive(int peer, Channel channel, Buffer space) override;
  void cancel(const OperationRef& operation) override;
  Status progress(std::vector<OperationRef>& completed) override;
  int culprit() const override { return culprit_; }
  void idle(std::uint64_t turns, double until_seconds) override;
  void leave_waiting() override {
    if (heartbeat_ != nullptr) watch_waited_for();
  }
  double now() override;
  void signal(int peer, const Signal& signal) override;
  bool poll_signal(Signal& signal) override { return signals_.poll(signal); }
  void close(Channel channel) override;
  bool is_for_this_thread() const noexcept override { return threads_.includes_this(); }
  const char* why_over() const noexcept override;

 private:
  using Finished = RequestTable::Finished;
  using Role = RequestTable::Role;

  MpiTransport(MPI_Comm data, MPI_Comm side, MpiIdler idler, int largest_tag,
               const MpiOptions& options);

  bool is_over();
  bool refuse(Operation& operation);
  void send_large(const MpiOperationRef& operation);
  void receive_head(const MpiOperationRef& operation, int tag);
  void receive_body(const MpiOperationRef& operation, const HeadFormat::Body& body);
  void discard_body(int peer, const HeadFormat::Body& body);
  void discard_next(const MpiOperationRef& operation);
  bool post_send(const MpiOperationRef& operation, const void* data, std::size_t bytes,
                 MPI_Comm comm, int tag);
  bool post_receive(const MpiOperationRef& operation, void* data, std::size_t bytes, MPI_Comm comm,
                    int tag, Role role);
  bool fail(int error, const char* call, Operation& operation);

  void handle(const Finished& finished, std::vector<OperationRef>& completed);
  void handle_head(const Finished& finished, std::vector<OperationRef>& completed);
  void finish(const MpiOperationRef& operation, std::vector<OperationRef>& completed,
              Status status = {});
  Status start_heartbeat(const net::HeartbeatOptions& options);
  void watch_waited_for();
  void look_for_deaths();
  Status too_large(const Operation& operation, std::uint64_t bytes) const;

  Buffer take_scratch();
  void give_scratch(MpiOperation& operation);

  void wait_in_simulation(std::uint64_t turns, double seconds_left);
  void look_around();
  void drain(Channel channel);

  MPI_Comm data_;  // heads
  MPI_Comm side_;  // bodies and signals
  MpiIdler idler_;
  int largest_tag_;
  ChannelTags tags_;
  HeadFormat format_;
  std::size_t piece_bytes_;
  MpiThreads threads_;
  int rank_ = -1;
  Capabilities capabilities_;
  std::vector<std::string> peers_;  // the description of each

  std::unique_ptr<net::Heartbeat> heartbeat_;
  std::uint32_t deaths_seen_ = 0;
  RequestTable requests_;
  MpiSignals signals_;
  Status health_;
  int culprit_ = -1;  // the peer whose death is in health_
  bool has_cancelled_ = false;
  int last_body_tag_ = MpiSignals::kTag;
  std::vector<Finished> finished_;
  std::vector<Buffer> scratch_;  // for heads whose receive buffer is shorter
  std::uint32_t turns_since_look_ = 0;
  net::WatchClock watch_clock_;
  RecentlyClosed closed_;
};

}  // namespace sparcl::transport
