#include "src/store/store_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/caught_error.hpp"
#include "src/base/log.hpp"
#include "src/net/signals_blocked.hpp"
#include "src/net/socket.hpp"

namespace sparcl::store {
namespace {

constexpr std::size_t kMaxWaiting = 64;  // versions; their bytes are at most the model's

}  // namespace

StoreSink::StoreSink(std::unique_ptr<ObjectStore> store, const ChainState& state,
                     const WriterOptions& options)
    : store_(std::move(store)), state_(state), options_(options) {}

Result<std::unique_ptr<StoreSink>> StoreSink::create(std::unique_ptr<ObjectStore> store,
                                                     const ChainState& state,
                                                     const WriterOptions& options,
                                                     std::span<const std::byte> description) {
  std::unique_ptr<StoreSink> made(new StoreSink(std::move(store), state, options));
  ChainState own = state;  // the thread works beside the training
  own.workers = nullptr;
  own.arrays = {};
  own.source = nullptr;
  SPARCL_ASSIGN_OR_RETURN(made->writer_, ChainWriter::open(*made->store_, own, options));
  SPARCL_RETURN_IF_ERROR(made->writer_->describe(description));
  if (made->writer_->newest()) {
    made->newest_ = made->writer_->newest()->target();
    made->stored_ = made->newest_->version;
  }
  try {
    const net::SignalsBlocked blocked;
    made->thread_ = std::thread([own = made.get()] { own->serve(); });
  } catch (...) {
    return caught_error("no thread to write to the store");
  }
  return made;
}

StoreSink::~StoreSink() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<model::HeldVersion> StoreSink::newest() const {
  const std::lock_guard lock(mutex_);
  return needs_whole_ ? std::nullopt : newest_;
}

std::uint64_t StoreSink::last() const {
  const std::lock_guard lock(mutex_);
  return newest_ ? newest_->version : 0;
}

void StoreSink::start_over() {
  const std::lock_guard lock(mutex_);
  needs_whole_ = true;
}

bool StoreSink::is_full() const {
  return waiting_.size() >= kMaxWaiting ||
         (!waiting_.empty() && waiting_bytes_ >= state_.map->byte_count());
}

// Each request to the store has a deadline: what waits is written, or fails.
void StoreSink::wait_for_room(std::unique_lock<std::mutex>& lock, std::uint64_t version) {
  if (!is_full()) return;
  const double begin = net::monotonic_seconds();
  log_warn(
      "{}: the store takes versions more slowly than they are published: version {} waits until "
      "some of {} versions before it are written",
      location(), version, waiting_.size());
  changed_.wait(lock, [&] { return !is_full(); });
  log_warn("{}: version {} has waited for {:.1f} s", location(), version,
           net::monotonic_seconds() - begin);
}

// Without the lock: to copy all bytes takes its time.
Result<StoreSink::Item> StoreSink::make_item(model::VersionEdition& edition, bool is_whole) const {
  Item item;
  item.version = edition.label->commit.version;
  if (!is_whole) {
    item.bytes = edition.delta->commit.stream_bytes;
    item.delta = std::move(edition.delta);
    return item;
  }
  item.whole = std::make_unique<model::Snapshot>();  // of these one waits at most
  SPARCL_RETURN_IF_ERROR(item.whole->take(*state_.map, state_.arrays, state_.source));
  return item;
}

void StoreSink::write(model::VersionEdition edition) try {
  std::unique_lock lock(mutex_);
  const model::HeldVersion version = edition.label->target();
  if (trouble_.code() == Code::kStale) return;  // for good
  wait_for_room(lock, version.version);
  const bool is_whole = needs_whole_ || edition.delta == nullptr;
  lock.unlock();
  Result<Item> item = make_item(edition, is_whole);
  lock.lock();
  if (!item.ok()) return fail(version.version, item.status());
  if (needs_whole_ && !is_whole) return;  // what it leads on from has failed meanwhile
  needs_whole_ = false;
  trouble_ = Status();
  newest_ = version;
  const std::uint64_t bytes = item->bytes;
  waiting_.push_back(std::move(*item));
  waiting_bytes_ += bytes;
  changed_.notify_all();
} catch (...) {
  const std::lock_guard lock(mutex_);
  fail(edition.label->commit.version, caught_error("it could not be kept for the store"));
}

// Under the lock. What waits leads on from what has failed.
void StoreSink::fail(std::uint64_t version, const Status& why) noexcept {
  for (const Item& each : waiting_) waiting_bytes_ -= each.bytes;
  waiting_.clear();
  needs_whole_ = true;
  try {
    tell_failure(version, why);
  } catch (...) {
    trouble_ = caught_error("a version could not be written to the store");
  }
  changed_.notify_all();
}

void StoreSink::tell_failure(std::uint64_t version, const Status& why) {
  trouble_ = why.with_prefix(fmt::format("{}: version {} is not there: ", location(), version));
  const std::uint64_t times = failures_.count(std::string(why.message()), net::monotonic_seconds());
  if (times > 0) log_error("{}{}", trouble_.message(), times_text(times));
}

void StoreSink::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) break;
    const Item item = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const Status stored = store_one(item);
    lock.lock();
    waiting_bytes_ -= item.bytes;
    if (stored.ok()) {
      stored_ = item.version;
    } else {
      fail(item.version, stored);
    }
    changed_.notify_all();
  }
  lock.unlock();
  writer_->finish();
}

Status StoreSink::store_one(const Item& item) try {
  return item.delta != nullptr ? writer_->publish(*item.delta)
                               : writer_->publish(item.version, item.whole->arrays());
} catch (...) {
  return caught_error("it could not be written");
}

Status StoreSink::wait(std::uint64_t version, double seconds) {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  (void)changed_.wait_for(lock, limit, [&] { return stored_ >= version || !trouble_.ok(); });
  if (stored_ >= version) return {};
  // Timeout says that the version may still come.
  if (trouble_.code() == Code::kTimeout) return Status(Code::kRemoteError, trouble_.message());
  if (!trouble_.ok()) return trouble_;
  return Status(Code::kTimeout,
                fmt::format("{}: after {:g} s version {} is not there: the newest is {}",
                            location(), seconds, version, stored_));
}

}  // namespace sparcl::store
