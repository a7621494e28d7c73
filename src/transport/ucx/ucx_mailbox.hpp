#pragma once
// News of UCX's callbacks for a communicator. Callbacks run on any thread that advances the
// process's worker, and touch no other part of the communicator. The communicator's own thread
// takes the news later. All under the worker's lock.

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>

#include "src/net/socket.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

class UcxMailbox;
class UcxWorker;
struct UcxEndpoint;
struct UcxOperation;
using UcxOperationRef = std::shared_ptr<UcxOperation>;
using UcxOperations = std::list<UcxOperationRef>;

// A message's tag: its channel, and the sender's id in the receiver's communicator. Each process
// numbers its own.
constexpr unsigned kUcxIdBits = 24;
constexpr std::uint32_t kUcxIds = std::uint32_t{1} << kUcxIdBits;
constexpr ucp_tag_t kUcxWholeTag = ~ucp_tag_t{0};
constexpr ucp_tag_t ucx_tag(Channel channel, std::uint32_t id) {
  return (ucp_tag_t{channel.call} << (kUcxIdBits + 8)) | (ucp_tag_t{channel.lane} << kUcxIdBits) |
         id;
}
// Matches messages for `ids` ids, and with `with_channel` of one channel.
constexpr ucp_tag_t ucx_tag_mask(std::uint32_t ids, bool with_channel = false) {
  return (with_channel ? kUcxWholeTag : ucp_tag_t{kUcxIds - 1}) & ~ucp_tag_t{ids - 1};
}

constexpr unsigned kUcxWordId = 1;  // of active messages

// An operation while UCX has it. Only the caller's thread changes the caller's part of it.
struct UcxOperation final : Operation {
  UcxWorker* worker = nullptr;
  UcxMailbox* mailbox = nullptr;    // nullptr: its end is not reported
  UcxEndpoint* endpoint = nullptr;  // of a send
  void* request = nullptr;          // UCX's, while it has one
  UcxOperations::iterator place;
  bool is_open = false;  // UCX may still touch the buffer
  ucs_status_t outcome = UCS_OK;
  std::uint64_t received_bytes = 0;
};

// An active message of another rank.
struct UcxWord {
  enum class Kind : std::int32_t { kSignal = 0, kDeparture = 1, kHello = 2 };
  int from = -1;
  Kind kind = Kind::kSignal;
  Signal signal;
};

class UcxMailbox {
 public:
  // For so many ranks. It receives messages from now on. Without the lock.
  static Result<std::unique_ptr<UcxMailbox>> open(std::shared_ptr<UcxWorker> worker, int ranks);
  // Operations that UCX still has continue without it, and later messages are dropped. Without the
  // lock.
  ~UcxMailbox();
  UcxMailbox(const UcxMailbox&) = delete;
  UcxMailbox& operator=(const UcxMailbox&) = delete;

  UcxWorker& worker() const { return *worker_; }
  // The ids of the ranks: this one and the following ones. The rank is in the lowest bits.
  std::uint32_t first_id() const { return first_id_; }
  std::uint32_t id_count() const { return id_count_; }

  void take_word(int from, UcxWord::Kind kind,
                 const Signal* signal) noexcept;  // too many are dropped
  void take_end(const UcxOperationRef& operation);
  void take_loss();

  // Whether there is news; without the lock.
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  void forget_news() { has_news_.store(false, std::memory_order_relaxed); }

  std::deque<UcxWord> words;
  std::atomic<bool> has_lost_words = false;  // there was no memory for one
  UcxOperations ended;
  std::uint64_t losses = 0;                 // grows when UCX has lost an endpoint
  const net::WakeEvent* sleeper = nullptr;  // of its thread, while that sleeps

 private:
  friend class UcxWorker;
  explicit UcxMailbox(std::shared_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}
  void wake();

  std::shared_ptr<UcxWorker> worker_;
  std::uint32_t first_id_ = 0, id_count_ = 0, ranks_ = 0;
  std::atomic<bool> has_news_ = false;
};

}  // namespace sparcl::transport
