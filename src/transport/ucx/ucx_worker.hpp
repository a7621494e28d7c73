#pragma once
// A UCX context with one worker, and the endpoints to other processes' workers. The communicators
// of a process share one, because it costs 5 MB and 10 descriptors (decision 0028).
//
// A thread that advances the worker serves the communicators of other threads as well: their news
// is put into their mailboxes.

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/heartbeat/heartbeat.hpp"
#include "src/net/socket.hpp"
#include "src/transport/ucx/ucx_mailbox.hpp"

namespace sparcl::transport {

// An endpoint to another process's worker.
struct UcxEndpoint {
  UcxWorker* worker = nullptr;
  ucp_ep_h handle = nullptr;
  bool is_handled = false;     // UCX reports its peer's end
  bool has_ended = false;      // the peer's worker has, in good order
  bool is_lost = false;        // a communicator has lost the peer
  ucs_status_t lost = UCS_OK;  // else UCX has lost it
  double trouble_at = 0;       // when UCX first reported trouble, of it or of a send
  std::size_t users = 0;       // communicators
  std::size_t sends = 0;       // that UCX has
};

// Held for less than a microsecond at a time, except when a peer is lost. It is taken at each
// message, so it costs one atomic operation. Threads that post have priority over threads that only
// look for news.
class UcxLock {
 public:
  void lock() {
    if (!is_held_.exchange(true, std::memory_order_acquire)) return;
    wait();
  }
  bool try_lock() {
    return waiting_.load(std::memory_order_relaxed) == 0 &&
           !is_held_.load(std::memory_order_relaxed) &&
           !is_held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() { is_held_.store(false, std::memory_order_release); }

 private:
  void wait();

  std::atomic<bool> is_held_ = false;
  std::atomic<int> waiting_ = 0;
};

class UcxWorker {
 public:
  using Lock = std::unique_lock<UcxLock>;

  // A new worker.
  static Result<std::shared_ptr<UcxWorker>> open();
  // The worker of this process for its present settings. A worker that has lost a peer takes no new
  // communicators, so two workers never connect a second time.
  static Result<std::shared_ptr<UcxWorker>> of_process();
  static bool is_open_in_process();  // of_process() does not make a new one
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  Lock lock() { return Lock(lock_); }
  Lock try_lock() { return {lock_, std::try_to_lock}; }

  ucp_worker_h handle() const { return worker_; }
  bool moves_device_memory() const { return moves_device_memory_; }
  // The address of this worker for peers.
  const std::vector<std::byte>& address() const { return address_; }

  // --- all below: under the lock ---

  unsigned progress() { return ucp_worker_progress(worker_); }

  // Sleeps until there may be news for `mailbox`, `heartbeat` (or nullptr) finds more deaths than
  // `deaths_seen`, or the time is up. The lock is released meanwhile.
  void sleep(Lock& held, UcxMailbox& mailbox, double seconds, net::Heartbeat* heartbeat,
             std::uint32_t deaths_seen);

  // Makes an endpoint if there is none. It stays until this worker or the peer's ends.
  ucs_status_t connect(const std::vector<std::byte>& address, bool is_handled,
                       UcxEndpoint*& endpoint);
  void retire() { is_retired_ = true; }

  // `start` calls UCX, with on_sent or on_received. True: it was done at once, with `outcome`.
  template <class Start>
  bool post(const UcxOperationRef& operation, const Start& start);
  static void on_sent(void* request, ucs_status_t status, void* operation);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* operation);
  const UcxOperations& open_operations() const { return open_; }
  bool has_open(const UcxMailbox& mailbox) const;

  // An active message, best effort. `to` is the own id in the receiver's communicator.
  UcxOperationRef send_word(UcxEndpoint& endpoint, std::uint32_t to, UcxWord::Kind kind,
                            const Signal* signal = nullptr);

  // A message that its call did not receive keeps its sender waiting. It is taken here, into no
  // space, and ends as too large.
  void drop_messages(ucp_tag_t tag, ucp_tag_t mask);
  // Now and then: messages for communicators that have ended, and unused endpoints.
  void tidy();
  // The time until which the end of this worker may wait for its operations.
  void close_until(double deadline) { close_until_ = std::max(close_until_, deadline); }

 private:
  friend class UcxMailbox;
  struct ActiveHeader;

  UcxWorker() = default;
  ~UcxWorker();
  Status init();
  bool takes_more() const;
  static void end(UcxWorker* worker) noexcept;
  bool close_all();
  bool try_close(UcxEndpoint& endpoint);
  void send_last_word(UcxEndpoint& endpoint);
  UcxOperationRef send_active(UcxEndpoint& endpoint, std::uint32_t to, std::int32_t kind,
                              std::span<const std::byte> content);
  void look_at_closing();
  Status add(UcxMailbox& mailbox);
  bool find_ids(UcxMailbox& mailbox);
  void remove(UcxMailbox& mailbox);
  UcxMailbox* mailbox_of(std::uint32_t id) const;
  void ended(UcxOperation& operation, ucs_status_t status);
  static void on_lost(void* endpoint, ucp_ep_h handle, ucs_status_t status);
  static ucs_status_t on_word(void* worker, const void* header, std::size_t header_bytes,
                              void* data, std::size_t bytes, const ucp_am_recv_param_t* param);

  UcxLock lock_;
  std::string settings_;  // it was opened with these
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;  // the worker's
  bool moves_device_memory_ = false;
  std::vector<std::byte> address_;
  std::atomic<bool> is_retired_ = false;

  std::map<std::vector<std::byte>, std::unique_ptr<UcxEndpoint>>
      endpoints_;               // by the peer's address
  std::vector<void*> closing_;  // UCX's requests for the ends of endpoints
  UcxOperations open_;
  struct Ids {
    std::uint32_t count = 0;
    UcxMailbox* mailbox = nullptr;  // nullptr: it has ended
  };
  std::map<std::uint32_t, Ids> ids_;     // by the first id
  std::deque<std::uint32_t> ended_ids_;  // the first ids of mailboxes that ended, the oldest first
  std::size_t next_ended_ = 0;           // next to be checked
  std::uint32_t next_id_ = 0;
  std::vector<UcxMailbox*> sleeping_;
  std::vector<net::WakeEvent> events_;  // not used by a sleeping thread
  double close_until_ = 0;
  UcxWorker* kept_before_ = nullptr;  // workers that are kept for good
};

// UCX is done with it at once, or calls back, perhaps before `start` returns. The operation is
// therefore listed before.
template <class Start>
bool UcxWorker::post(const UcxOperationRef& operation, const Start& start) {
  operation->place = open_.insert(open_.end(), operation);
  operation->is_open = true;
  if (operation->endpoint != nullptr) ++operation->endpoint->sends;
  const ucs_status_ptr_t request = start();
  if (!operation->is_open) return false;
  if (UCS_PTR_IS_PTR(request)) {
    operation->request = request;
    return false;
  }
  UcxMailbox* const mailbox = std::exchange(operation->mailbox, nullptr);  // the caller knows
  ended(*operation, UCS_PTR_STATUS(request));
  operation->mailbox = mailbox;
  return true;
}

}  // namespace sparcl::transport
