// Messages over MPI: a head, and for a large message a body behind it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/log.hpp"
#include "src/net/broken_pipe.hpp"
#include "src/transport/mpi/mpi_error.hpp"
#include "src/transport/mpi/mpi_transport.hpp"
#include "src/transport/posting.hpp"

namespace sparcl::transport {
namespace {

constexpr std::size_t kScratchKept = 64;

}  // namespace

OperationRef MpiTransport::send(int peer, Channel channel, Buffer message) {
  const MpiOperationRef operation =
      make_operation<MpiOperation>(Operation::Kind::kSend, peer, channel, std::move(message));
  if (refuse(*operation)) return operation;
  const net::BrokenPipeGuard guard;
  if (format_.fits_eagerly(operation->buffer.size())) {
    post_send(operation, operation->buffer.data(), operation->buffer.size(), data_,
              tags_.of(channel));
  } else {
    send_large(operation);
  }
  return operation;
}

void MpiTransport::send_large(const MpiOperationRef& operation) {
  const Buffer& message = operation->buffer;
  last_body_tag_ = last_body_tag_ < largest_tag_ ? last_body_tag_ + 1 : MpiSignals::kTag + 1;
  const int body_tag = last_body_tag_;
  operation->head = take_scratch();
  format_.write(operation->head.data(), message.data(),
                {message.size(), static_cast<std::uint64_t>(body_tag)});
  if (!post_send(operation, operation->head.data(), operation->head.size(), data_,
                 tags_.of(operation->channel)))
    return;
  for (std::size_t first = format_.eager_bytes(); first < message.size(); first += piece_bytes_) {
    const std::size_t bytes = std::min(piece_bytes_, message.size() - first);
    if (!post_send(operation, message.data() + first, bytes, side_, body_tag)) return;
  }
}

OperationRef MpiTransport::receive(int peer, Channel channel, Buffer space) {
  const MpiOperationRef operation =
      make_operation<MpiOperation>(Operation::Kind::kReceive, peer, channel, std::move(space));
  const net::BrokenPipeGuard guard;
  if (!refuse(*operation)) receive_head(operation, tags_.of(channel));
  return operation;
}

void MpiTransport::receive_head(const MpiOperationRef& operation, int tag) {
  if (operation->buffer.size() < format_.largest_head()) operation->head = take_scratch();
  const Buffer& place = operation->head.size() > 0 ? operation->head : operation->buffer;
  post_receive(operation, place.data(), format_.largest_head(), data_, tag, Role::kHead);
}

void MpiTransport::receive_body(const MpiOperationRef& operation, const HeadFormat::Body& body) {
  for (std::uint64_t first = format_.eager_bytes(); first < body.total_bytes;
       first += piece_bytes_) {
    const std::size_t bytes = std::min<std::uint64_t>(piece_bytes_, body.total_bytes - first);
    if (!post_receive(operation, operation->buffer.data() + first, bytes, side_,
                      static_cast<int>(body.tag), Role::kBody))
      return;
  }
}

// No operation wants the body, but its sender waits until it is taken: piece by piece into the same
// memory.
void MpiTransport::discard_body(int peer, const HeadFormat::Body& body) {
  const auto operation = make_operation<MpiOperation>(Operation::Kind::kReceive, peer, {}, {});
  operation->done = true;
  operation->body_tag = static_cast<int>(body.tag);
  operation->left_bytes = body.total_bytes - format_.eager_bytes();
  try {
    operation->buffer =
        Buffer::allocate(std::min<std::uint64_t>(operation->left_bytes, piece_bytes_));
  } catch (const std::bad_alloc&) {
    return;  // the sender waits until its own deadline
  }
  discard_next(operation);
}

void MpiTransport::discard_next(const MpiOperationRef& operation) {
  const std::size_t bytes = std::min<std::uint64_t>(operation->left_bytes, piece_bytes_);
  operation->left_bytes -= bytes;
  if (bytes > 0)
    post_receive(operation, operation->buffer.data(), bytes, side_, operation->body_tag,
                 Role::kDiscard);
}

bool MpiTransport::post_send(const MpiOperationRef& operation, const void* data, std::size_t bytes,
                             MPI_Comm comm, int tag) {
  requests_.make_place();
  MPI_Request request = MPI_REQUEST_NULL;
  const int error =
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, operation->peer, tag, comm, &request);
  if (error != MPI_SUCCESS) return fail(error, "MPI_Isend", *operation);
  requests_.add(request, operation, Role::kSend);
  return true;
}

bool MpiTransport::post_receive(const MpiOperationRef& operation, void* data, std::size_t bytes,
                                MPI_Comm comm, int tag, Role role) {
  requests_.make_place();
  MPI_Request request = MPI_REQUEST_NULL;
  const int error =
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, operation->peer, tag, comm, &request);
  if (error != MPI_SUCCESS) return fail(error, "MPI_Irecv", *operation);
  requests_.add(request, operation, role);
  return true;
}

// MPI did not take a request: its other state is unknown, so the transport ends here.
bool MpiTransport::fail(int error, const char* call, Operation& operation) {
  health_ = mpi_status(error, call)
                .with_prefix(
                    fmt::format("rank {} ({}): ", operation.peer, describe_peer(operation.peer)));
  if (!operation.done) operation.status = health_;
  operation.done = true;
  return false;
}

void MpiTransport::cancel(const OperationRef& operation) {
  if (operation == nullptr || operation->done) return;
  const auto own = std::static_pointer_cast<MpiOperation>(operation);
  own->done = true;
  own->status = Status(Code::kInProgress, "cancelled before it was over", Scope::kRequest);
  has_cancelled_ = true;
  if (!mpi_is_finalized()) requests_.cancel_head(*own);
}

Buffer MpiTransport::take_scratch() {
  if (scratch_.empty()) return Buffer::allocate(format_.largest_head());
  Buffer taken = std::move(scratch_.back());
  scratch_.pop_back();
  return taken;
}

void MpiTransport::give_scratch(MpiOperation& operation) {
  if (operation.head.size() > 0 && scratch_.size() < kScratchKept)
    scratch_.push_back(std::move(operation.head));
  operation.head = Buffer();
}

// --- what has arrived, or left ---

void MpiTransport::handle(const Finished& finished, std::vector<OperationRef>& completed) {
  const MpiOperationRef& operation = finished.operation;
  if (finished.error != MPI_SUCCESS) {
    const std::string what = fmt::format(
        "{} rank {}", operation->kind == Operation::Kind::kSend ? "send to" : "receive from",
        operation->peer);
    return finish(operation, completed, mpi_status(finished.error, what));
  }
  switch (finished.role) {
    case Role::kHead:
      return handle_head(finished, completed);
    case Role::kDiscard:
      return discard_next(operation);
    case Role::kSend:
    case Role::kBody:
      break;
  }
  if (operation->open_requests > 0) return;
  if (operation->head.size() > 0) give_scratch(*operation);
  finish(operation, completed);
}

// A done operation was cancelled, or is one of drain()'s. Its message is still taken.
void MpiTransport::handle_head(const Finished& finished, std::vector<OperationRef>& completed) {
  const MpiOperationRef& operation = finished.operation;
  const Buffer head = operation->head.size() > 0 ? operation->head : operation->buffer;
  const bool in_place = operation->head.size() == 0;
  if (finished.withdrawn) return give_scratch(*operation);
  const bool whole = format_.fits_eagerly(finished.bytes);
  const std::optional<HeadFormat::Body> body =
      whole ? std::nullopt : format_.read(head.data(), largest_tag_);
  if (!whole && (finished.bytes != format_.largest_head() || !body)) {
    return finish(operation, completed,
                  Status(Code::kCorrupt,
                         fmt::format("rank {} sent a head that makes no sense", operation->peer)));
  }
  operation->bytes = whole ? finished.bytes : body->total_bytes;
  const bool fits = operation->bytes <= operation->buffer.size();
  const std::size_t in_head = std::min<std::uint64_t>(operation->bytes, format_.eager_bytes());
  if (fits && !in_place && in_head > 0) std::memcpy(operation->buffer.data(), head.data(), in_head);
  give_scratch(*operation);
  if (!fits && body) discard_body(operation->peer, *body);
  if (!fits) return finish(operation, completed, too_large(*operation, operation->bytes));
  if (whole) return finish(operation, completed);
  receive_body(operation, *body);
}

void MpiTransport::finish(const MpiOperationRef& operation, std::vector<OperationRef>& completed,
                          Status status) {
  if (operation->done) return;  // it was cancelled, or failed before
  operation->done = true;
  operation->status = std::move(status);
  completed.push_back(operation);
}

Status MpiTransport::too_large(const Operation& operation, std::uint64_t bytes) const {
  return Status(Code::kCorrupt, fmt::format("a message of {} bytes from rank {} ({}) on call {} "
                                            "lane {} is larger than the {} bytes awaited",
                                            bytes, operation.peer, describe_peer(operation.peer),
                                            operation.channel.call, operation.channel.lane,
                                            operation.buffer.size()));
}

}  // namespace sparcl::transport
