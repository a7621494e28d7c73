#include "collectives/sparse_sum/part_messages.hpp"

#include <cstring>
#include <utility>

namespace sparcl::collectives::sparse_sum {

void PartMessages::send(int peer, std::uint8_t lane, const Buffer& part,
                        const sparse::PartShape& shape) {
  if (const Buffer place = comm::lent(window_, peer, part); place.size() != part.size()) {
    traffic_.bytes_sent += part.size();
    traffic_.has_widened |= shape.is_scaled();
    return note_sent(engine_.send(peer, {number_, lane}, place));
  }
  const bool is_near = window_ != nullptr && window_->is_shared_with(peer);
  const bool is_coded = (shape.is_scaled() ? codes_scaled_ : codes_) && !is_near;
  const Buffer message = is_coded ? message_of(part, shape) : part;
  traffic_.has_widened |=
      shape.is_scaled() && (message.data() == part.data() && part.size() > sparse::kPartHeadBytes);
  traffic_.bytes_sent += message.size();
  const std::size_t front = std::min<std::size_t>(message.size(), kFrontBytes);
  note_sent(engine_.send(peer, {number_, lane}, message.slice(0, front)));
  const auto rest = static_cast<std::uint8_t>(lane + 1);
  for (std::size_t at = front; at < message.size(); at += kPieceBytes)
    note_sent(
        engine_.send(peer, {number_, rest},
                     message.slice(at, std::min<std::size_t>(kPieceBytes, message.size() - at))));
}

// One part is often sent to many ranks.
const Buffer& PartMessages::message_of(const Buffer& part, const sparse::PartShape& shape) {
  if (part_.size() != part.size() || part_.data() != part.data()) {
    part_ = part;
    message_ = coder_.code(buffers_, part.bytes(), shape).value_or(part);
  }
  return message_;
}

void PartMessages::note_sent(transport::OperationRef operation) {
  sent_.push_back(std::move(operation));
  if (sent_.size() < sweep_at_) return;
  std::erase_if(
      sent_, [](const transport::OperationRef& each) { return each->done && each->status.ok(); });
  sweep_at_ = std::max<std::size_t>(256, 2 * sent_.size());
}

PartMessages::Arrival PartMessages::receive(int peer, std::uint8_t lane,
                                            const sparse::PartShape& shape,
                                            std::uint64_t max_bytes) {
  const auto front = static_cast<std::size_t>(std::min(max_bytes, kFrontBytes));
  return {
      peer, lane, shape, max_bytes, engine_.receive(peer, {number_, lane}, buffers_.take(front)),
      {}};
}

Task PartMessages::wait(Arrival& arrival, const char* purpose) {
  Status alive = co_await engine_.wait(arrival.front, purpose);
  if (!alive.ok()) co_return alive;
  const transport::Operation& front = *arrival.front;
  if (comm::is_place(front.buffer.bytes().first(front.bytes))) {
    std::optional<Buffer> part =
        comm::borrowed(window_, arrival.peer, front.buffer.bytes().first(front.bytes));
    if (!part || part->size() < sparse::kPartHeadBytes || part->size() > arrival.max_bytes)
      co_return refuse(arrival.peer);
    traffic_.bytes_received += part->size();
    arrival.part = std::move(*part);
    co_return Status();
  }
  const std::uint64_t bytes = front.bytes >= sparse::kPartHeadBytes
                                  ? sparse::part_bytes(front.buffer.data()) & ~sparse::kCodedPart
                                  : 0;
  if (bytes < sparse::kPartHeadBytes || bytes > arrival.max_bytes ||
      front.bytes != std::min(bytes, kFrontBytes))
    co_return refuse(arrival.peer);
  traffic_.bytes_received += bytes;
  if (bytes == front.bytes) co_return take_message(arrival, front.buffer.slice(0, bytes));
  const Buffer message = buffers_.take(bytes);
  std::memcpy(message.data(), front.buffer.data(), front.bytes);
  std::vector<transport::OperationRef> pieces;
  const transport::Channel rest{number_, static_cast<std::uint8_t>(arrival.lane + 1)};
  for (std::uint64_t at = front.bytes; at < bytes; at += kPieceBytes)
    pieces.push_back(
        engine_.receive(arrival.peer, rest, message.slice(at, std::min(kPieceBytes, bytes - at))));
  for (const transport::OperationRef& piece : pieces) {
    alive = co_await engine_.wait(piece, purpose);
    if (!alive.ok()) co_return alive;
    if (piece->bytes != piece->buffer.size()) co_return refuse(arrival.peer);
  }
  co_return take_message(arrival, message);
}

Status PartMessages::take_message(Arrival& arrival, const Buffer& message) {
  if ((sparse::part_bytes(message.data()) & sparse::kCodedPart) == 0) {
    arrival.part = message;
    return Status();
  }
  std::optional<Buffer> part =
      coder_.expand(buffers_, message.bytes(), arrival.shape, arrival.max_bytes);
  if (!part) return refuse(arrival.peer);
  arrival.part = std::move(*part);
  return Status();
}

Status PartMessages::refuse(int peer) {
  engine_.fail(Status(Code::kSystemError,
                      "a message of a sparse sum is no part of it, or larger than it may be"),
               peer);
  return engine_.health();
}

Task PartMessages::wait_sent() {
  for (const transport::OperationRef& operation : sent_) {
    const Status alive = co_await engine_.wait(operation, "its peer to take a part");
    if (!alive.ok()) co_return alive;
  }
  co_return Status();
}

}  // namespace sparcl::collectives::sparse_sum
