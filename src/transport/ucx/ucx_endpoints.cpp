// The endpoints of a process's worker: how they are opened, and closed without UCX 1.13's aborts.

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "src/transport/ucx/ucx_worker.hpp"

namespace sparcl::transport {

ucs_status_t UcxWorker::connect(const std::vector<std::byte>& address, bool is_handled,
                                UcxEndpoint*& endpoint) {
  std::unique_ptr<UcxEndpoint>& found = endpoints_[address];
  if (found == nullptr) {
    auto made = std::make_unique<UcxEndpoint>();
    made->worker = this;
    made->is_handled = is_handled;
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = is_handled ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler = {on_lost, made.get()};
    if (const ucs_status_t created = ucp_ep_create(worker_, &params, &made->handle);
        created != UCS_OK) {
      endpoints_.erase(address);
      return created;
    }
    found = std::move(made);
  }
  if (found->lost != UCS_OK || found->has_ended)
    return found->lost != UCS_OK ? found->lost : UCS_ERR_NOT_CONNECTED;
  endpoint = found.get();
  return UCS_OK;
}

void UcxWorker::on_lost(void* endpoint, ucp_ep_h, ucs_status_t status) {
  auto& lost = *static_cast<UcxEndpoint*>(endpoint);
  if (lost.trouble_at == 0) lost.trouble_at = net::monotonic_seconds();
  lost.lost = status;
  if (!lost.has_ended) lost.worker->retire();
  for (const auto& [first, ids] : lost.worker->ids_) {
    if (ids.mailbox != nullptr) ids.mailbox->take_loss();
  }
}

// False: it must stay open.
bool UcxWorker::try_close(UcxEndpoint& endpoint) {
  // UCX 1.13 aborts when it closes an endpoint that its peer has closed under a send
  // ("proto_reqs").
  if (endpoint.is_handled && endpoint.sends > 0) return false;
  // A silent endpoint that UCX has not given up: sent bytes may fill its socket. With a cut cable,
  // the end of such a worker in UCX 1.13 did not return once in some 400 times.
  if (endpoint.is_handled && endpoint.is_lost && endpoint.lost == UCS_OK) return false;
  closing_.reserve(closing_.size() + 1);  // what UCX is closing must be waited for
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = endpoint.is_handled && (endpoint.is_lost || endpoint.lost != UCS_OK)
                    ? UCP_EP_CLOSE_FLAG_FORCE
                    : 0;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint.handle, &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
  return true;
}

void UcxWorker::look_at_closing() {
  std::erase_if(closing_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

void UcxWorker::tidy() {
  look_at_closing();
  for (auto at = endpoints_.begin(); at != endpoints_.end();) {
    UcxEndpoint& each = *at->second;
    const bool is_of_no_use =
        each.users == 0 && each.sends == 0 && (each.has_ended || each.lost != UCS_OK);
    at = is_of_no_use && try_close(each) ? endpoints_.erase(at) : std::next(at);
  }
  if (ended_ids_.empty()) return;
  const std::uint32_t first = ended_ids_[next_ended_++ % ended_ids_.size()];
  drop_messages(first, ucx_tag_mask(ids_[first].count));
}

// False: UCX still holds some of it.
bool UcxWorker::close_all() {
  constexpr double kMinSeconds = 0.05;
  const Lock held = lock();
  const double deadline = std::max(close_until_, net::monotonic_seconds() + kMinSeconds);
  try {
    for (const auto& [address, endpoint] : endpoints_) {
      if (endpoint->lost == UCS_OK && !endpoint->is_lost && !endpoint->has_ended &&
          address != address_)
        send_last_word(*endpoint);
    }
    drop_messages(0, 0);
  } catch (const std::exception&) {  // no memory: peers keep their endpoints until they end
  }
  bool is_closed = true;
  for (const auto& [address, endpoint] : endpoints_) is_closed = try_close(*endpoint) && is_closed;
  while (!closing_.empty() && net::monotonic_seconds() < deadline) {
    if (progress() == 0 && ucp_worker_arm(worker_) == UCS_OK) {
      pollfd entry{event_fd_, POLLIN, 0};
      net::poll_until({&entry, 1}, std::min(deadline, net::monotonic_seconds() + 0.01));
    }
    look_at_closing();
  }
  drop_messages(0, 0);  // of a dead peer, read from its socket meanwhile: UCX would warn of them
  return is_closed && closing_.empty() && open_.empty();
}

}  // namespace sparcl::transport
