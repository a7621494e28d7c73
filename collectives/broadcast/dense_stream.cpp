#include "collectives/broadcast/dense_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <exception>

#include "collectives/broadcast/update_ends.hpp"
#include "src/base/bytes.hpp"
#include "src/base/caught_error.hpp"
#include "src/base/checksum.hpp"
#include "src/base/failpoint.hpp"
#include "src/codec/state_hash.hpp"
#include "src/comm/engine/lending.hpp"

namespace sparcl::collectives::broadcast {
namespace {

constexpr std::size_t kSumBytes = 8;
constexpr std::size_t kLastBytes = 36;  // version, has_hash, hash, CRC32C
constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kAhead = 4;  // receives that are posted
// Fragments in flight to a rank that reads the window: they stay in the cache. A credit allows
// kFragmentsPerCredit more.
constexpr std::uint64_t kFragmentsPerCredit = 4;
constexpr std::uint64_t kCreditsAhead = 2;
constexpr std::size_t kCreditBytes = 1;
// Elsewhere it limits the memory of a rank that sends.
constexpr std::size_t kSendsPerChild = 64;

// Several passes over a piece of this size read it from the first level of the cache.
constexpr std::size_t kPieceBytes = 8 << 10;
// What is not larger is written to the cache, else around it.
constexpr std::uint64_t kCachedBytes = std::uint64_t{4} << 20;

// Small enough that ranks overlap their work. A divisor of a segment. The same on all ranks, which
// SPARCL_FRAGMENT_BYTES need not be.
std::size_t fragment_of(std::uint64_t bytes) {
  return std::bit_floor(
      std::clamp<std::uint64_t>(bytes / 16, kMinFragmentBytes, kMaxFragmentBytes));
}

// The checksum of a fragment from those of its pieces.
constexpr std::uint64_t joined(std::uint64_t sum, std::uint64_t piece) {
  return sum * (kernels::hash_key(2 * kernels::kSumColumns) | 1) + piece;
}

template <class Use>
void for_each_piece(std::size_t count, Use&& use) {
  for (std::size_t at = 0; at < count; at += kPieceBytes)
    use(at, std::min(kPieceBytes, count - at));
}

}  // namespace

DenseStream::DenseStream(const CommContext& comm, std::uint32_t number, std::uint8_t lane,
                         Links links, UpdateCall& call)
    : Stream(*comm.engine),
      comm_(comm),
      data_{number, lane},
      credits_{number, static_cast<std::uint8_t>(lane + 1)},
      links_(std::move(links)),
      call_(call),
      arrays_(*call.map, call.held, *comm.kernels),
      snapshot_(*call.map, call.sender.snapshot, *comm.kernels),
      fragment_bytes_(fragment_of(arrays_.bytes())),
      hash_(call.schema_hash),
      awaited_credits_(links_.children.size()) {
  traffic_.stream_bytes = arrays_.bytes();
}

DenseStream::~DenseStream() {
  if (!is_committed_) undo();
}

std::size_t DenseStream::count_at(std::uint64_t first) const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(fragment_bytes_, arrays_.bytes() - first));
}

bool DenseStream::is_near(int peer) const {
  return comm_.window != nullptr && comm_.window->is_shared_with(peer);
}

Task DenseStream::send_all(StreamSource&, Status&) {
  version_ = call_.version;
  has_hash_ = call_.sender.with_state_hash;
  for (std::uint64_t first = 0; first < arrays_.bytes(); first += fragment_bytes_) {
    Task credit = take_credit(first);
    SPARCL_CO_RETURN_IF_ERROR(co_await credit);
    const Buffer message = message_at(first);
    pass_on(message);
    bring_forward(first, count_at(first));
    hash_up_to(first + count_at(first));
    co_await engine_.yield();
    if (!engine_.health().ok()) co_return engine_.health();
  }
  const Buffer last = last_message();
  pass_on(last);
  co_return Status();
}

Buffer DenseStream::message_at(std::uint64_t first) {
  const std::size_t count = count_at(first);
  Buffer message = comm_.outgoing().take(count + kSumBytes);
  std::uint64_t sum = 0;
  for_each_piece(count, [&](std::size_t at, std::size_t bytes) {
    std::byte* const to = message.data() + at;
    const std::byte* from = arrays_.piece(first + at, bytes);
    if (from == nullptr) {
      arrays_.read(first + at, bytes, kernels::Output::kCached, to);
      from = to;
    }
    sum = joined(sum, comm_.kernels->copy_sum(from, bytes, to));
  });
  store_le(message.data() + count, sum);
  return message;
}

// Without commit() the snapshot is no longer that of any state.
void DenseStream::bring_forward(std::uint64_t first, std::size_t count) {
  if (snapshot_.bytes() == 0) return;
  call_.outcome.has_written_snapshot = true;
  arrays_.copy(first, count, snapshot_);
}

// Blocks are about in the order of the arrays, so that most of their lines are in the cache.
void DenseStream::hash_up_to(std::uint64_t end) {
  if (!has_hash_) return;
  const std::uint64_t blocks = call_.map->block_count();
  const auto last = end == arrays_.bytes()
                        ? blocks
                        : static_cast<std::uint64_t>(
                              static_cast<double>(blocks) *
                              (static_cast<double>(end) / static_cast<double>(arrays_.bytes())));
  if (last <= hashed_blocks_) return;
  const codec::ArrayInput input{{call_.held.begin(), call_.held.end()}};
  hash_ = hash_ + codec::blocks_hash(*call_.map, input, hashed_blocks_, last, *comm_.kernels);
  hashed_blocks_ = last;
}

Buffer DenseStream::last_message() const {
  ByteWriter content;
  content.write(version_);
  content.write(std::uint64_t{has_hash_ ? 1U : 0U});
  content.write(hash_.low);
  content.write(hash_.high);
  content.write(crc32c(content.bytes()));
  Buffer message = Buffer::allocate(kLastBytes);
  std::ranges::copy(content.bytes(), message.data());
  return message;
}

Status DenseStream::take_last(const Buffer& message) {
  const std::byte* const at = message.data();
  if (crc32c(message.bytes().first(kLastBytes - kCrcBytes)) !=
      load_le<std::uint32_t>(at + kLastBytes - kCrcBytes))
    return Status(Code::kCorrupt, "the last message of the arrays came damaged");
  version_ = load_le<std::uint64_t>(at);
  has_hash_ = load_le<std::uint64_t>(at + 8) != 0;
  hash_ = {load_le<std::uint64_t>(at + 16), load_le<std::uint64_t>(at + 24)};
  return check_version(call_, comm_, version_);
}

// Waits until the children have room for the fragment at `first`.
Task DenseStream::take_credit(std::uint64_t first) {
  const std::uint64_t fragment = first / fragment_bytes_;
  if (fragment % kFragmentsPerCredit == 0) {
    for (std::size_t i = 0; i < links_.children.size(); ++i) {
      if (!is_near(links_.children[i])) continue;
      std::deque<transport::OperationRef>& awaited = awaited_credits_[i];
      awaited.push_back(
          engine_.receive(links_.children[i], credits_, Buffer::allocate(kCreditBytes)));
      if (awaited.size() <= kCreditsAhead) continue;
      const transport::OperationRef oldest = awaited.front();
      SPARCL_CO_RETURN_IF_ERROR(co_await engine_.wait(oldest, "a child to read what was sent"));
      awaited.pop_front();
    }
  }
  const std::size_t most = kSendsPerChild * std::max<std::size_t>(1, links_.children.size());
  while (!sends_.empty() && (sends_.front()->done || sends_.size() > most)) {
    const transport::OperationRef oldest = sends_.front();
    SPARCL_CO_RETURN_IF_ERROR(co_await engine_.wait(oldest, "a child to take a fragment"));
    sends_.pop_front();
  }
  co_return Status();
}

void DenseStream::pass_on(const Buffer& message) {
  for (const int child : links_.children) {
    sends_.push_back(engine_.send(child, data_, comm::lent(comm_.window.get(), child, message)));
    traffic_.bytes_sent += message.size();
    SPARCL_FAILPOINT("broadcast.sending");
  }
}

// used: of a receive that is over, or empty.
void DenseStream::post_receive(const Buffer& used) {
  if (next_receive_ > arrays_.bytes()) return;
  if (next_receive_ == arrays_.bytes()) {
    receives_.push_back(engine_.receive(links_.parent, data_, Buffer::allocate(kLastBytes)));
    ++next_receive_;
    return;
  }
  const std::size_t bytes = count_at(next_receive_) + kSumBytes;
  const Buffer room = used.size() >= bytes ? used.slice(0, bytes) : receive_room(bytes);
  receives_.push_back(engine_.receive(links_.parent, data_, room));
  next_receive_ += count_at(next_receive_);
}

// From a near parent only locations come, unless its window has no room: the pool keeps no memory
// for them.
Buffer DenseStream::receive_room(std::size_t bytes) const {
  if (!links_.children.empty()) return comm_.outgoing().take(bytes);
  return is_near(links_.parent) ? Buffer::allocate(bytes) : comm_.buffers->take(bytes);
}

Task DenseStream::receive_all(StreamTarget&, Status& outcome) {
  for (std::size_t i = 0; i < kAhead; ++i) post_receive(Buffer());
  for (std::uint64_t first = 0; first < arrays_.bytes(); first += fragment_bytes_) {
    Task credit = take_credit(first);
    SPARCL_CO_RETURN_IF_ERROR(co_await credit);
    const transport::OperationRef next = receives_.front();
    SPARCL_CO_RETURN_IF_ERROR(co_await engine_.wait(next, "the next fragment of the arrays"));
    receives_.pop_front();
    const std::size_t count = count_at(first);
    const Result<Buffer> message = message_of(*next, count + kSumBytes);
    if (!message.ok()) {
      engine_.fail(message.status(), links_.parent);
      co_return engine_.health();
    }
    SPARCL_FAILPOINT("broadcast.receiving");
    traffic_.bytes_received += message->size();
    pass_on(*message);
    if (outcome.ok()) outcome = take_or_fail(first, *message, count);
    give_credit(first);
    post_receive(links_.children.empty() ? next->buffer : Buffer());
  }
  const transport::OperationRef last = receives_.front();
  SPARCL_CO_RETURN_IF_ERROR(co_await engine_.wait(last, "the end of the arrays"));
  receives_.pop_front();
  const Result<Buffer> message = message_of(*last, kLastBytes);
  if (!message.ok()) {
    engine_.fail(message.status(), links_.parent);
    co_return engine_.health();
  }
  pass_on(*message);
  if (outcome.ok()) outcome = take_last(*message);
  co_return Status();
}

// Fragments of the parent's window are copied only for this rank's children.
Result<Buffer> DenseStream::message_of(const transport::Operation& received,
                                       std::size_t bytes) const {
  const std::span<const std::byte> came = received.buffer.bytes().first(received.bytes);
  if (came.size() == bytes) return received.buffer;
  const std::optional<Buffer> lent = comm::borrowed(comm_.window.get(), links_.parent, came);
  if (!lent || lent->size() != bytes)
    return Status(Code::kRemoteError,
                  fmt::format("rank {} sent {} bytes of a broadcast's arrays in place of {}",
                              links_.parent, lent ? lent->size() : came.size(), bytes));
  if (links_.children.empty()) return *lent;
  std::ranges::copy(lent->bytes(), received.buffer.data());
  return received.buffer;
}

void DenseStream::give_credit(std::uint64_t first) {
  if (!is_near(links_.parent)) return;
  const std::uint64_t fragment = first / fragment_bytes_;
  const bool is_last = first + fragment_bytes_ >= arrays_.bytes();
  if (is_last || fragment % kFragmentsPerCredit == kFragmentsPerCredit - 1)
    sends_.push_back(engine_.send(links_.parent, credits_, Buffer::allocate(kCreditBytes)));
}

// The other ranks learn of missing memory by the vote.
Status DenseStream::take_or_fail(std::uint64_t first, const Buffer& message,
                                 std::size_t count) noexcept try {
  return take(first, message, count);
} catch (const std::exception&) {
  return caught_error("the arrays could not be received");
}

// A damaged fragment is written, too, if it is written early: the call fails and restores.
Status DenseStream::take(std::uint64_t first, const Buffer& message, std::size_t count) {
  staging_.reserve(first + count);
  std::byte* const kept = staging_.slice(first, count).data();
  std::uint64_t sum = 0;
  for_each_piece(count, [&](std::size_t at, std::size_t bytes) {
    const std::byte* const piece = message.data() + at;
    sum = joined(sum, call_.receiver.writing == codec::Writing::kStaged
                          ? comm_.kernels->copy_sum(piece, bytes, kept + at)
                          : write_early(first + at, {piece, bytes}, kept + at));
    written_ = first + at + bytes;
  });
  SPARCL_FAILPOINT("update.early_write");
  if (sum == load_le<std::uint64_t>(message.data() + count)) return {};
  return Status(Code::kCorrupt,
                fmt::format("bytes {} to {} of the arrays came damaged", first, first + count));
}

// Returns the checksum of the new bytes.
std::uint64_t DenseStream::write_early(std::uint64_t first, std::span<const std::byte> bytes,
                                       std::byte* log) {
  arrays_.read(
      first, bytes.size(),
      arrays_.bytes() > kCachedBytes ? kernels::Output::kStreamed : kernels::Output::kCached, log);
  if (std::byte* const to = arrays_.piece(first, bytes.size()); to != nullptr)
    return comm_.kernels->copy_sum(bytes.data(), bytes.size(), to);
  std::array<std::byte, kPieceBytes> copy;
  const std::uint64_t sum = comm_.kernels->copy_sum(bytes.data(), bytes.size(), copy.data());
  arrays_.write(first, std::span(copy).first(bytes.size()), kernels::Output::kCached);
  return sum;
}

void DenseStream::commit() {
  is_committed_ = true;
  call_.outcome.version = version_;
  if (has_hash_) call_.outcome.hash = hash_;
  call_.outcome.has_written_snapshot = false;
  call_.outcome.is_committed = comm_.engine->transport().rank() != call_.root;
  if (call_.receiver.writing == codec::Writing::kStaged) write_kept(kernels::Output::kStreamed);
}

void DenseStream::undo() noexcept {
  if (call_.receiver.writing == codec::Writing::kStaged) return;
  write_kept(kernels::Output::kCached);
  written_ = 0;
}

void DenseStream::write_kept(kernels::Output output) const {
  for (std::uint64_t first = 0; first < written_; first += fragment_bytes_) {
    const std::uint64_t count = std::min<std::uint64_t>(fragment_bytes_, written_ - first);
    arrays_.write(first, staging_.slice(first, static_cast<std::size_t>(count)).bytes(), output);
  }
}

Task DenseStream::drain() {
  while (!sends_.empty()) {
    const transport::OperationRef oldest = sends_.front();
    SPARCL_CO_RETURN_IF_ERROR(co_await engine_.wait(oldest, "a child to take its last fragment"));
    sends_.pop_front();
  }
  for (std::deque<transport::OperationRef>& awaited : awaited_credits_) {
    for (; !awaited.empty(); awaited.pop_front()) {
      const transport::OperationRef oldest = awaited.front();
      SPARCL_CO_RETURN_IF_ERROR(co_await engine_.wait(oldest, "a child to read what was sent"));
    }
  }
  co_return Status();
}

void DenseStream::abandon() {
  const auto give_up = [this](std::deque<transport::OperationRef>& operations) {
    for (const transport::OperationRef& operation : operations) {
      if (!operation->done) engine_.transport().cancel(operation);
    }
    operations.clear();
  };
  give_up(sends_);
  give_up(receives_);
  for (std::deque<transport::OperationRef>& awaited : awaited_credits_) give_up(awaited);
  if (!is_committed_) undo();
}

}  // namespace sparcl::collectives::broadcast
