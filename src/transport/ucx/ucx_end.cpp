// How the UCX body ends: without a word lost that a peer may still read, and without what UCX 1.13 aborts at.

#include <algorithm>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/forever.hpp"
#include "src/base/log.hpp"
#include "src/transport/ucx/ucx_operation.hpp"

namespace sparcl {
namespace {

// What UCX may still write to or read from when a transport ends.
template <class Operations>
void keep_for_good(std::unique_ptr<UcxWorker> worker, Operations& operations) noexcept {
  struct Kept {
    std::mutex mutex;
    std::list<std::unique_ptr<UcxWorker>> workers;
    Operations operations;
  };
  static Forever<Kept> kept;  // other threads may be at it when the process ends
  std::list<std::unique_ptr<UcxWorker>> worker_alone;
  try {
    worker_alone.emplace_back() = std::move(worker);
  } catch (const std::exception&) {
    (void)worker.release();
  }
  const std::lock_guard lock((*kept).mutex);
  (*kept).workers.splice((*kept).workers.end(), worker_alone);
  (*kept).operations.splice((*kept).operations.end(), operations);
}

// A stage of the end, which the next one does not need. It fails only if there is no memory.
template <class Stage>
bool try_stage(Stage&& stage) noexcept {
  try {
    stage();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

UcxTransport::~UcxTransport() {
  for (auto at = open_.begin(); at != open_.end();) {
    const UcxOperationRef each = *at++;  // it may end here, and leave the list
    each->done = true;
    if (each->kind == Operation::Kind::kReceive) ucp_request_cancel(worker_->handle(), each->request);
  }
  SPARCL_FAILPOINT("destroy.begin");
  const double deadline = now() + options_.farewell_s;
  try_stage([&] { say_farewell(deadline); });
  SPARCL_FAILPOINT("destroy.farewell");
  try_stage([&] {
    if (heartbeat_ != nullptr && heartbeat_.use_count() > 1) heartbeat_->retire();
  });
  heartbeat_.reset();
  try_stage([&] { drop_messages(0, 0); });
  if (!try_stage([&] { close_endpoints(std::max(deadline, now() + kLongestSleep)); })) keeps_worker_ = true;
  try_stage([&] { drop_messages(0, 0); });  // of a dead peer, read from its socket meanwhile: UCX would warn of them
  if (open_.empty() && closing_.empty() && !keeps_worker_) return;
  log_debug("rank {}: {} operations are left with UCX; their memory stays allocated", rank_, open_.size());
  keep_for_good(std::move(worker_), open_);
}

// A socket that is closed while bytes lie in it unread takes with it what its peer has not read yet. So peers that talked to each
// other wait for each other, for a while.
void UcxTransport::say_farewell(double deadline) {
  std::vector<bool> told(peers_.size());
  for (;;) {
    bool waits = false;
    for (Peer& peer : peers_) {
      if (peer.rank == rank_ || !peer.lost.ok()) continue;
      const auto index = static_cast<std::size_t>(peer.rank);
      if (!told[index] && (peer.talked || peer.said_farewell)) {
        send_active(peer, Active::kFarewell);
        told[index] = true;
      }
      waits = waits || (told[index] && !peer.said_farewell);
    }
    if (!waits || now() >= deadline) return;
    if (ucp_worker_progress(worker_->handle()) == 0) worker_->sleep(std::min(deadline - now(), 0.01), -1);
    newly_lost_.clear();
  }
}

void UcxTransport::close_endpoints(double deadline) {
  closing_.reserve(closing_.size() + peers_.size());  // what UCX is closing must be waited for
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    // UCX 1.13 aborts when it closes an endpoint that its peer has closed under a send ("proto_reqs"): it is left open, and kept.
    const bool is_sending = std::any_of(open_.begin(), open_.end(), [&](const UcxOperationRef& each) {
      return each->peer == peer.rank && each->kind == Operation::Kind::kSend;
    });
    if (is_sending && is_handled_by_ucx(peer)) continue;
    // One that is silent, and that UCX has not given up: what it was sent may fill its socket. Once of some 400 times, with a cable
    // that was cut, the end of such a worker in UCX 1.13 did not end itself.
    if (!peer.lost.ok() && !peer.lost_by_ucx && is_handled_by_ucx(peer)) {
      keeps_worker_ = true;
      continue;
    }
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = !peer.lost.ok() && is_handled_by_ucx(peer) ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    const ucs_status_ptr_t request = ucp_ep_close_nbx(peer.endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
  }
  while (!closing_.empty()) {
    const bool moved = ucp_worker_progress(worker_->handle()) != 0;
    if (now() >= deadline) return;
    if (!moved) worker_->sleep(std::min(deadline - now(), 0.01), -1);
    std::erase_if(closing_, [](void* request) {
      if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      ucp_request_free(request);
      return true;
    });
  }
}

}  // namespace sparcl
