// Delivers messages to a process's worker to their communicator.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "src/transport/posting.hpp"
#include "src/transport/ucx/ucx_worker.hpp"

namespace sparcl::transport {
namespace {

constexpr std::size_t kEndedRemembered = 1024;  // communicators whose late messages are still taken
constexpr std::uint32_t kToWorker = UINT32_MAX;  // no id: the sender's worker ends

}  // namespace

struct UcxWorker::ActiveHeader {
  std::uint32_t to;   // the id of the sender, in the receiver's communicator
  std::int32_t kind;  // UcxWord::Kind
};

// --- ids ---

Status UcxWorker::add(UcxMailbox& mailbox) {
  mailbox.id_count_ = std::bit_ceil(mailbox.ranks_);
  while (mailbox.id_count_ > kUcxIds || !find_ids(mailbox)) {
    if (mailbox.id_count_ > kUcxIds || ended_ids_.empty()) {
      return Status(
          Code::kUnsupported,
          fmt::format("the ucx transport takes up to {} ranks in all communicators of a process",
                      kUcxIds));
    }
    ids_.erase(ended_ids_.front());
    ended_ids_.pop_front();
  }
  ids_[mailbox.first_id_] = {mailbox.id_count_, &mailbox};
  return {};
}

// The next free ids after those that were given last, so that an id is not reused soon.
bool UcxWorker::find_ids(UcxMailbox& mailbox) {
  const std::uint32_t count = mailbox.id_count_;
  for (int round = 0; round < 2; ++round) {
    while (next_id_ + count <= kUcxIds) {
      next_id_ = (next_id_ + count - 1) / count * count;
      auto after = ids_.lower_bound(next_id_ + count);  // the first that begins behind
      if (after == ids_.begin() ||
          std::prev(after)->first + std::prev(after)->second.count <= next_id_) {
        if (next_id_ + count > kUcxIds) break;
        mailbox.first_id_ = std::exchange(next_id_, next_id_ + count);
        return true;
      }
      --after;
      next_id_ = after->first + after->second.count;
    }
    next_id_ = 0;
  }
  return false;
}

void UcxWorker::remove(UcxMailbox& mailbox) {
  const auto found = ids_.find(mailbox.first_id_);
  if (found == ids_.end() || found->second.mailbox != &mailbox) return;  // it was refused
  for (const UcxOperationRef& each : open_) {
    if (each->mailbox == &mailbox) each->mailbox = nullptr;
  }
  found->second.mailbox = nullptr;
  drop_messages(mailbox.first_id_, ucx_tag_mask(mailbox.id_count_));
  ended_ids_.push_back(mailbox.first_id_);
  if (ended_ids_.size() <= kEndedRemembered) return;
  ids_.erase(ended_ids_.front());
  ended_ids_.pop_front();
}

UcxMailbox* UcxWorker::mailbox_of(std::uint32_t id) const {
  const auto after = ids_.upper_bound(id);
  if (after == ids_.begin()) return nullptr;
  const auto& [first, ids] = *std::prev(after);
  return ids.mailbox != nullptr && id - first < ids.mailbox->ranks_ ? ids.mailbox : nullptr;
}

// --- operations ---

bool UcxWorker::has_open(const UcxMailbox& mailbox) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const UcxOperationRef& each) { return each->mailbox == &mailbox; });
}

// UCX has released the operation.
void UcxWorker::ended(UcxOperation& operation, ucs_status_t status) {
  operation.request = nullptr;
  operation.is_open = false;
  operation.outcome = status;
  if (operation.endpoint != nullptr) {
    --operation.endpoint->sends;
    if (status != UCS_OK && operation.endpoint->trouble_at == 0)
      operation.endpoint->trouble_at = net::monotonic_seconds();
  }
  if (operation.mailbox != nullptr) {
    operation.mailbox->take_end(*operation.place);
  } else {
    const UcxOperationRef last = *operation.place;
    open_.erase(last->place);
  }
}

void UcxWorker::on_sent(void* request, ucs_status_t status, void* operation) {
  auto& own = *static_cast<UcxOperation*>(operation);
  own.worker->ended(own, status);
  ucp_request_free(request);
}

void UcxWorker::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                            void* operation) {
  auto& own = *static_cast<UcxOperation*>(operation);
  if (status == UCS_OK) own.received_bytes = info->length;
  own.worker->ended(own, status);
  ucp_request_free(request);
}

void UcxWorker::drop_messages(ucp_tag_t tag, ucp_tag_t mask) {
  ucp_tag_recv_info_t info = {};
  while (const ucp_tag_message_h message = ucp_tag_probe_nb(worker_, tag, mask, 1, &info)) {
    const UcxOperationRef operation =
        make_operation<UcxOperation>(Operation::Kind::kReceive, -1, {}, {});
    operation->worker = this;
    operation->done = true;
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv = on_received;
    param.user_data = operation.get();
    post(operation, [&] { return ucp_tag_msg_recv_nbx(worker_, nullptr, 0, message, &param); });
  }
}

// --- words ---

UcxOperationRef UcxWorker::send_active(UcxEndpoint& endpoint, std::uint32_t to, std::int32_t kind,
                                       std::span<const std::byte> content) {
  const ActiveHeader header{to, kind};
  Buffer bytes = Buffer::allocate(sizeof header + content.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!content.empty()) std::memcpy(bytes.data() + sizeof header, content.data(), content.size());
  const UcxOperationRef operation =
      make_operation<UcxOperation>(Operation::Kind::kSend, -1, {}, std::move(bytes));
  operation->worker = this;
  operation->endpoint = &endpoint;
  operation->done = true;  // it has no waiter
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_sent;
  param.user_data = operation.get();
  post(operation, [&] {
    return ucp_am_send_nbx(endpoint.handle, kUcxWordId, operation->buffer.data(), sizeof header,
                           operation->buffer.data() + sizeof header, content.size(), &param);
  });
  return operation;
}

UcxOperationRef UcxWorker::send_word(UcxEndpoint& endpoint, std::uint32_t to, UcxWord::Kind kind,
                                     const Signal* signal) {
  const auto content =
      signal != nullptr ? std::as_bytes(std::span(signal, 1)) : std::span<const std::byte>();
  return send_active(endpoint, to, static_cast<std::int32_t>(kind), content);
}

void UcxWorker::send_last_word(UcxEndpoint& endpoint) {
  send_active(endpoint, kToWorker, 0, address_);
}

ucs_status_t UcxWorker::on_word(void* worker, const void* header, std::size_t header_bytes,
                                void* data, std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto& own = *static_cast<UcxWorker*>(worker);
  ActiveHeader read;
  if (header_bytes != sizeof read || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
    return UCS_OK;
  std::memcpy(&read, header, sizeof read);
  if (read.to == kToWorker) {
    const std::span address(static_cast<const std::byte*>(data),
                            bytes);  // no copy: there may be no memory, and UCX is C
    const auto ended = std::ranges::find_if(
        own.endpoints_, [&](const auto& each) { return std::ranges::equal(each.first, address); });
    if (ended != own.endpoints_.end()) ended->second->has_ended = true;
    return UCS_OK;
  }
  UcxMailbox* const mailbox = own.mailbox_of(read.to);
  if (mailbox == nullptr) return UCS_OK;  // its communicator has ended
  const auto kind = static_cast<UcxWord::Kind>(read.kind);
  Signal signal;
  const bool has_signal = kind == UcxWord::Kind::kSignal;
  if (has_signal && bytes != sizeof signal) return UCS_OK;
  if (has_signal) std::memcpy(&signal, data, sizeof signal);
  mailbox->take_word(static_cast<int>(read.to - mailbox->first_id_), kind,
                     has_signal ? &signal : nullptr);
  return UCS_OK;
}

}  // namespace sparcl::transport
