#pragma once
// Shared by the dense algorithms: ranges of elements, cut into segments, and messages of one
// segment.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/dense/dense.hpp"
#include "src/comm/engine/lending.hpp"

namespace sparcl::collectives::dense {

struct Range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Elements of a segment, of which each rank holds some from every rank. Heuristic: large enough for
// the link, small enough for a cache. Over slow links it is small, so that sums are made while
// other segments are sent. Some 100 MiB are in flight up to 700 ranks, then 144 KiB a rank.
inline std::uint64_t segment_elements(const LinkCost& link, int ranks, DataType datatype) {
  constexpr std::uint64_t kMost = 256 << 10, kLeast = 16 << 10, kInFlight = 32 << 20, kDepth = 3;
  const std::uint64_t share =
      std::clamp(kInFlight / (kDepth * static_cast<std::uint64_t>(ranks)), kLeast, kMost);
  const std::uint64_t bytes = link.is_slow() ? kLeast : share;
  return bytes / element_bytes(datatype);
}

// The s-th segment of a range.
inline Range segment_of(Range range, std::uint64_t s, std::uint64_t elements) {
  const std::uint64_t begin = std::min(s * elements, range.count);
  return {range.first + begin, std::min(elements, range.count - begin)};
}

// Messages of one call: posts them, counts their bytes, and keeps sent buffers until they are
// taken.
class SegmentMessages {
 public:
  SegmentMessages(const CommContext& comm, const DenseCall& call, Traffic& traffic)
      : engine_(*comm.engine),
        window_(comm.window.get()),
        buffers_(*comm.buffers),
        outgoing_(comm.outgoing()),
        call_(call),
        bytes_(element_bytes(call.datatype)),
        traffic_(traffic) {}

  // nullptr if there is nothing to receive.
  transport::OperationRef receive(int peer, std::uint8_t lane, std::uint64_t elements) {
    if (elements == 0) return nullptr;
    traffic_.bytes_received += elements * bytes_;
    return engine_.receive(peer, {call_.number, lane}, buffers_.take(elements * bytes_));
  }

  void send(int peer, std::uint8_t lane, const Buffer& values) {
    if (values.size() == 0) return;
    traffic_.bytes_sent += values.size();
    sent_.push_back(engine_.send(peer, {call_.number, lane}, comm::lent(window_, peer, values)));
    if (sent_.size() < sweep_at_) return;
    std::erase_if(
        sent_, [](const transport::OperationRef& each) { return each->done && each->status.ok(); });
    sweep_at_ = std::max(kMinSwept, 2 * sent_.size());
  }

  // A buffer for a message to send.
  Buffer take(std::size_t bytes) { return outgoing_.take(bytes); }

  Buffer pack(Range range) {
    Buffer packed = take(range.count * bytes_);
    if (range.count > 0) call_.values->pack(range.first, range.count, packed.data());
    return packed;
  }

  // Waits for all `operations`; `what` names their content in errors. Poisons the communicator if a
  // message has another size than both ranks know.
  Task wait_all(const std::vector<transport::OperationRef>& operations, const char* what) {
    for (const transport::OperationRef& operation : operations) {
      if (operation == nullptr) continue;
      const Status alive = co_await engine_.wait(operation, what);
      if (!alive.ok()) co_return alive;
      if (operation->kind == transport::Operation::Kind::kReceive &&
          operation->bytes != operation->buffer.size() && !fetch(*operation)) {
        engine_.fail(
            Status(Code::kRemoteError, "a segment of an all-reduce has another size than expected"),
            operation->peer);
        co_return engine_.health();
      }
    }
    co_return Status();
  }

  const std::vector<transport::OperationRef>& sent() const { return sent_; }
  std::size_t element_size() const { return bytes_; }

 private:
  // Sent buffers stay in memory until a sweep.
  static constexpr std::size_t kMinSwept = 16;

  // Reads a segment of which only the location has come.
  bool fetch(transport::Operation& received) const {
    std::optional<Buffer> segment =
        comm::borrowed(window_, received.peer, received.buffer.bytes().first(received.bytes));
    if (!segment || segment->size() != received.buffer.size()) return false;
    received.buffer = std::move(*segment);
    received.bytes = received.buffer.size();
    return true;
  }

  Engine& engine_;
  transport::NodeWindow* window_;
  BufferSource& buffers_;
  BufferSource& outgoing_;
  const DenseCall& call_;
  std::size_t bytes_;
  Traffic& traffic_;
  std::vector<transport::OperationRef> sent_;
  std::size_t sweep_at_ = kMinSwept;
};

}  // namespace sparcl::collectives::dense
