#include "collectives/broadcast/message_stream.hpp"

#include <fmt/format.h>

#include "src/base/failpoint.hpp"

namespace sparcl::collectives::broadcast {
namespace {

// The number of unsent fragments at the root: limits its memory. Heuristic.
constexpr std::size_t kSendsInFlight = 64;

}  // namespace

Task MessageStream::send_all(StreamSource& source, Status& outcome) {
  while (outcome.ok() && !source.finished()) {
    const bool is_idle = source.is_waiting();
    if (!is_idle) {
      outcome = produce(source);
      cut_fragments();
      staging_.release(cut_);
    }
    // Lets messages move, and waits if the children fall behind.
    co_await engine_.yield(is_idle);
    while (!sends_.empty() &&
           (sends_.front()->done || sends_.size() > kSendsInFlight * links_.children.size())) {
      SPARCL_CO_RETURN_IF_ERROR(
          co_await engine_.wait(sends_.front(), "a child to take a fragment"));
      sends_.pop_front();
    }
    if (!engine_.health().ok()) co_return engine_.health();
  }
  end_stream();
  co_return Status();
}

void MessageStream::cut_fragments() {
  while (written_ - cut_ >= fragment_bytes_) {
    pass_on(cut_, fragment_bytes_);
    cut_ += fragment_bytes_;
  }
}

void MessageStream::end_stream() {
  cut_fragments();
  pass_on(cut_, static_cast<std::size_t>(written_ - cut_));
  for (int i = 1; i < kReceivesAhead; ++i) pass_on(0, 0);
}

void MessageStream::pass_on(std::uint64_t first, std::size_t count) {
  for (const int child : links_.children) {
    sends_.push_back(
        engine_.send(child, channel_, count > 0 ? staging_.slice(first, count) : Buffer()));
    traffic_.bytes_sent += count;
    SPARCL_FAILPOINT("broadcast.sending");
  }
}

void MessageStream::post_receive() {
  staging_.reserve(next_receive_ + fragment_bytes_);
  receives_.push_back(
      engine_.receive(links_.parent, channel_, staging_.slice(next_receive_, fragment_bytes_)));
  next_receive_ += fragment_bytes_;
}

void MessageStream::take_fragment(std::size_t count, Status& outcome) {
  if (ended_) {
    if (count > 0 && outcome.ok())
      outcome = Status(Code::kCorrupt,
                       fmt::format("{} bytes follow the end of the update's stream", count));
    pass_on(0, 0);
    return;
  }
  SPARCL_FAILPOINT("broadcast.receiving");
  pass_on(written_, count);
  written_ += count;
  traffic_.bytes_received += count;
  traffic_.stream_bytes = written_;
  ended_ = count < fragment_bytes_;
  if (!ended_) post_receive();
}

Task MessageStream::receive_all(StreamTarget& target, Status& outcome) {
  for (int i = 0; i < kReceivesAhead; ++i) post_receive();
  bool more = false;
  while (!receives_.empty() || (more && outcome.ok())) {
    const bool arrived = !receives_.empty() && receives_.front()->done;
    if (!arrived && more &&
        outcome.ok()) {  // nothing to pass on: check a piece of the received bytes
      const bool is_idle = target.is_waiting();
      if (!is_idle) outcome = check(target, more);
      co_await engine_.yield(is_idle);
      if (!engine_.health().ok()) co_return engine_.health();
      continue;
    }
    const transport::OperationRef next = receives_.front();
    SPARCL_CO_RETURN_IF_ERROR(co_await engine_.wait(next, "the next fragment of the update"));
    receives_.pop_front();
    take_fragment(static_cast<std::size_t>(next->bytes), outcome);
    more = true;
  }
  if (outcome.ok()) outcome = finish(target);
  co_return Status();
}

Task MessageStream::drain() {
  while (!sends_.empty()) {
    SPARCL_CO_RETURN_IF_ERROR(
        co_await engine_.wait(sends_.front(), "a child to take its last fragment"));
    sends_.pop_front();
  }
  co_return Status();
}

void MessageStream::abandon() {
  for (const transport::OperationRef& operation : sends_) {
    if (!operation->done) engine_.transport().cancel(operation);
  }
  for (const transport::OperationRef& operation : receives_) {
    if (!operation->done) engine_.transport().cancel(operation);
  }
  sends_.clear();
  receives_.clear();
}

}  // namespace sparcl::collectives::broadcast
