#include "src/transport/survivors/survivor_gather.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/base/wait_warning.hpp"

namespace sparcl::transport {
namespace {

constexpr std::size_t kMaxBytes = 65536;  // of one rank

Status wait_for(Transport& transport, const OperationRef& operation, double deadline) {
  std::vector<OperationRef> completed;
  WaitWarning warning;
  const double begin = transport.now();
  for (std::uint64_t turns = 0; !operation->done; ++turns) {
    if (const double lasted = transport.now() - begin; warning.is_due(lasted)) {
      log_warn("rank {} has waited {:.3g} s in sparclCommShrink for the address of rank {} ({})",
               transport.rank(), lasted, operation->peer, transport.describe_peer(operation->peer));
    }
    if (transport.now() >= deadline) {
      transport.cancel(operation);
      return Status(Code::kTimeout,
                    fmt::format("rank {} ({}) did not tell how it is reached", operation->peer,
                                transport.describe_peer(operation->peer)));
    }
    SPARCL_RETURN_IF_ERROR(transport.progress(completed));
    completed.clear();
    if (!operation->done) transport.idle(turns, std::min(deadline, begin + warning.next_s()));
  }
  return operation->status;
}

}  // namespace

Result<std::vector<Bytes>> survivor_gather(Transport& transport, Channel channel,
                                           std::span<const int> ranks,
                                           std::span<const std::byte> own, double timeout_s) {
  const double deadline = transport.now() + timeout_s;
  const std::size_t count = ranks.size();
  const auto found = std::find(ranks.begin(), ranks.end(), transport.rank());
  if (found == ranks.end())
    return Status(Code::kInternalError, "this rank is none of the survivors");
  if (own.size() > kMaxBytes)
    return Status(Code::kInternalError, "what a survivor tells is too large");
  const auto self = static_cast<std::size_t>(found - ranks.begin());
  std::vector<Bytes> all(count);
  all[self].assign(own.begin(), own.end());
  Status trouble;
  for (std::size_t step = 1; step < count; ++step) {
    const std::size_t from = (self + count - step) % count;
    Buffer message = Buffer::allocate(own.size());
    std::copy(own.begin(), own.end(), message.data());
    const OperationRef sent =
        transport.send(ranks[(self + step) % count], channel, std::move(message));
    const OperationRef received =
        transport.receive(ranks[from], channel, Buffer::allocate(kMaxBytes));
    const Status came = wait_for(transport, received, deadline);
    const Status went = wait_for(transport, sent, deadline);
    if (came.ok())
      all[from].assign(received->buffer.data(), received->buffer.data() + received->bytes);
    if (trouble.ok()) trouble = came.ok() ? went : came;
  }
  if (!trouble.ok()) return trouble;
  return all;
}

}  // namespace sparcl::transport
