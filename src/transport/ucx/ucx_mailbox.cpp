#include "src/transport/ucx/ucx_mailbox.hpp"

#include <exception>

#include "src/transport/ucx/ucx_worker.hpp"

namespace sparcl::transport {

Result<std::unique_ptr<UcxMailbox>> UcxMailbox::open(std::shared_ptr<UcxWorker> worker, int ranks) {
  UcxWorker& shared = *worker;
  std::unique_ptr<UcxMailbox> made(new UcxMailbox(std::move(worker)));
  made->ranks_ = static_cast<std::uint32_t>(ranks);
  const UcxWorker::Lock held = shared.lock();
  SPARCL_RETURN_IF_ERROR(shared.add(*made));
  return made;
}

UcxMailbox::~UcxMailbox() {
  const UcxWorker::Lock held = worker_->lock();
  try {
    worker_->remove(*this);
  } catch (const std::exception&) {  // no memory to drop messages: they stay with the worker
  }
}

void UcxMailbox::take_word(int from, UcxWord::Kind kind, const Signal* signal) noexcept {
  constexpr std::size_t kMaxSignals = 1024;
  if (words.size() >= kMaxSignals + 2 * std::size_t{ranks_}) return;
  try {
    UcxWord& word = words.emplace_back();
    word.from = from;
    word.kind = kind;
    if (signal != nullptr) word.signal = *signal;
  } catch (const std::exception&) {
    has_lost_words = true;
  }
  wake();
}

// Without a new node: there may be no memory.
void UcxMailbox::take_end(const UcxOperationRef& operation) {
  ended.splice(ended.end(), worker_->open_, operation->place);
  wake();
}

void UcxMailbox::take_loss() {
  ++losses;
  wake();
}

void UcxMailbox::wake() {
  has_news_.store(true, std::memory_order_release);
  if (sleeper != nullptr) sleeper->wake();
}

}  // namespace sparcl::transport
