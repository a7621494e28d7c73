#pragma once
// The UCX transport: RDMA, shared memory, TCP, whatever UCX finds. A channel between two ranks is a
// tag. Each message is one message of UCX's, however large. Signals are active messages.
//
// UCX reports a peer's death on lanes that can (TCP, RDMA), never on shared memory. It leaves
// operations waiting that wait for a dead peer's message. Operations are therefore listed here, and
// end with an error once a peer is known to be gone.

#include <ucp/api/ucp.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/net/heartbeat/heartbeat.hpp"
#include "src/net/heartbeat/watch_clock.hpp"
#include "src/transport/peer_card.hpp"
#include "src/transport/recently_closed.hpp"
#include "src/transport/transport.hpp"
#include "src/transport/ucx/ucx_mailbox.hpp"
#include "src/transport/ucx/ucx_worker.hpp"
#include "src/transport/ucx_plugin.hpp"

namespace sparcl::transport {

class UcxTransport final : public Transport {
 public:
  // Collective: all `ranks` ranks meet in `gather`, each with its PeerCard.
  static Result<std::unique_ptr<UcxTransport>> create(int rank, int ranks,
                                                      const OutOfBandGather& gather,
                                                      const UcxOptions& options = {});

  // Waits for the peers, for at most options.departure_s.
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::string_view name() const override { return "ucx"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string describe_peer(int peer) const override;

  OperationRef send(int peer, Channel channel, Buffer message) override;
  OperationRef receive(int peer, Channel channel, Buffer space) override;
  void cancel(const OperationRef& operation) override;
  Status progress(std::vector<OperationRef>& completed) override;
  int culprit() const override { return first_lost_; }
  void idle(std::uint64_t turns, double until_seconds) override;
  void leave_waiting() override;
  double now() override;
  void signal(int peer, const Signal& signal) override;
  void flush_signals(double seconds) override;
  bool poll_signal(Signal& signal) override;
  void close(Channel channel) override;
  PeerEnd end_of(int peer) override;
  void go_on_without(int peer) override;
  Result<std::unique_ptr<Transport>> make_successor(int rank, int ranks,
                                                    const OutOfBandGather& gather) override;
  // UCX 1.13 aborts the process if a peer dies while the two are connecting. All connections are
  // therefore made while all ranks are known to live, unless they are too many.
  Status connect(double timeout_s) override;

 private:
  struct Peer {
    int rank = -1;
    PeerCard card;
    UcxEndpoint* endpoint = nullptr;
    bool talked = false;  // an operation to or from it was posted
    bool said_hello = false;
    bool has_departed = false;
    bool was_told = false;     // that it was given up
    bool is_left_out = false;  // the other ranks continue without it
    Status lost;               // not ok: it is gone; the reason
  };

  using Lock = UcxWorker::Lock;
  UcxTransport(std::unique_ptr<UcxMailbox> mailbox, int rank, std::vector<PeerCard> cards,
               const UcxOptions& options);
  UcxWorker& worker() const { return mailbox_->worker(); }
  Status begin(std::unique_ptr<net::Heartbeat> heartbeat);
  Status say_hello_to_all(double timeout_s);
  // Called before a rank leaves that could not begin. Waits for a while until its messages are sent
  // and the other ranks have connected to it. UCX 1.13 aborts a process if its peer leaves during a
  // connect over TCP ("wireup_ep->pending_count == 0").
  void finish_hellos();
  Status start_heartbeat(std::unique_ptr<net::Heartbeat> heartbeat);
  bool is_handled_by_ucx(const Peer& peer) const;
  bool has_sent_all_words();  // takes the lock
  void sleep(double seconds);

  // --- under the worker's lock ---
  void sleep(Lock& held, double seconds);
  void watch_waited_for();
  void look_for_deaths();
  Status why_lost(const Peer& peer) const;
  Result<UcxEndpoint*> endpoint(Peer& peer);
  void log_lanes(const Peer& peer);
  UcxOperationRef make(Operation::Kind kind, int peer, Channel channel, Buffer buffer);
  template <class Start>
  void post(const UcxOperationRef& operation, const Start& start);
  void move_on();
  void give_up(UcxOperation& operation);
  bool settle(const UcxOperationRef& operation);
  static bool finish(UcxOperation& operation, Status status);
  void take_news();
  void take_words();
  void take_losses();
  void find_first_lost(const Peer& lost);
  Status describe_end(const UcxOperation& operation) const;
  void lose(Peer& peer);
  void send_word(Peer& peer, UcxWord::Kind kind, const Signal* signal = nullptr);
  void pass_on(const Signal& signal);
  void drop_leftovers();
  void say_departure(Lock& held, double deadline);
  void let_sends_end(Lock& held, double deadline);

  std::unique_ptr<UcxMailbox> mailbox_;
  int rank_;
  UcxOptions options_;
  Capabilities capabilities_;
  bool crowded_ = false;
  bool may_share_memory_;
  std::shared_ptr<net::Heartbeat> heartbeat_;
  std::vector<std::shared_ptr<net::Heartbeat>>
      past_heartbeats_;  // they tell live ranks that they were excluded
  std::uint32_t deaths_seen_ = 0;
  std::uint64_t losses_seen_ = 0;
  bool has_awaited_word_ = false;
  int first_lost_ = -1;  // the first peer that ended without a goodbye
  std::vector<Peer> peers_;
  std::vector<OperationRef> completed_;
  std::vector<int> newly_lost_;
  std::deque<Signal> signals_;
  std::vector<UcxOperationRef> sent_words_;
  RecentlyClosed closed_;
  std::uint32_t turns_since_look_ = 0;
  double idle_since_ = 0;
  net::WatchClock watch_clock_;
  std::vector<std::string> lanes_logged_;
};

}  // namespace sparcl::transport
