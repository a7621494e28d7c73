#include "src/replication/subscriber.hpp"

namespace sparcl::replication {

Subscriber::~Subscriber() { (void)thread_.stop(); }

Subscriber::Versions Subscriber::versions() const {
  const std::lock_guard lock(mutex_);
  return {machine_.holds_published() ? shown_version() : 0, machine_.newest()};
}

Subscriber::Incoming Subscriber::incoming() const {
  const std::lock_guard lock(mutex_);
  const StagedUpdate* update = machine_.incoming();
  if (update == nullptr) return {};
  return {update->commit().version, update->received_bytes(), update->commit().stream_bytes};
}

const std::byte* Subscriber::array(std::size_t i) const {
  const std::lock_guard lock(mutex_);
  return buffers_ != nullptr ? buffers_->front()[i] : state_.arrays[i];
}

Status Subscriber::pin(std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  SPARCL_RETURN_IF_ERROR(machine_.on_pin(version, rollback_.to(), rollback_.why()));
  came_.notify_all();
  wake_.wake();
  return {};
}

LatestHeld Subscriber::latest() const {
  const std::lock_guard lock(mutex_);
  return machine_.latest();
}

Subscriber::SideFilesView Subscriber::side_files(std::uint64_t version) const {
  const std::lock_guard lock(mutex_);
  const SideFileBook& book = machine_.side_files();
  return {book.is_answered() && machine_.newest() >= version, book.of(version)};
}

Status Subscriber::trouble() const {
  const std::lock_guard lock(mutex_);
  return machine_.why_nothing_comes();
}

std::string Subscriber::publisher() const {
  const std::lock_guard lock(mutex_);
  return publisher_.name();
}

}  // namespace sparcl::replication
