#pragma once
// What the parts of UcxTransport share: an operation while UCX has it.

#include "src/transport/ucx/ucx_transport.hpp"

namespace sparcl {

constexpr double kLongestSleep = 0.05;  // seconds; closed channels are looked at now and then

struct UcxTransport::UcxOperation final : Operation {
  UcxTransport* transport = nullptr;
  void* request = nullptr;  // UCX's, while it has one
  Open::iterator place;
  bool is_open = false;
  bool is_posting = false;
};

// UCX is done with it at once, or calls back: perhaps before `start` returns, so that the operation is listed before. One that is
// over by then is not reported by progress() again.
template <class Start>
void UcxTransport::post(const UcxOperationRef& operation, const Start& start) {
  operation->place = open_.insert(open_.end(), operation);
  operation->is_open = true;
  operation->is_posting = true;
  const ucs_status_ptr_t request = start();
  if (operation->is_open && UCS_PTR_IS_PTR(request)) operation->request = request;
  if (operation->is_open && !UCS_PTR_IS_PTR(request)) end(*operation, UCS_PTR_STATUS(request));
  operation->is_posting = false;
}

}  // namespace sparcl
