#include "src/replication/rollback.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

namespace sparcl::replication {

Rollback::Rollback(std::uint64_t max_bytes)
    : max_bytes_(max_bytes),
      why_(max_bytes > 0 ? "it has held no other published version"
                         : "what updates replace is not kept") {}

void Rollback::begin(const HeldVersion& from, std::uint64_t epoch) noexcept {
  lose(why_);
  if (max_bytes_ == 0) return;
  to_ = from;
  epoch_ = epoch;
}

void Rollback::add(std::optional<codec::ChangeLog> replaced) noexcept try {
  if (!to_) return;
  if (replaced) bytes_ += replaced->bytes();
  if (!replaced || bytes_ > max_bytes_) {
    return lose(
        "what led away from the version before was not kept: it is all bytes of the model, or more "
        "than a quarter of them");
  }
  replaced_.push_back(std::move(*replaced));
} catch (const std::bad_alloc&) {
  lose("there was no memory to keep it in");
}

void Rollback::lose(const char* why) noexcept {
  to_.reset();
  why_ = why;
  bytes_ = 0;
  replaced_.clear();
}

std::uint64_t Rollback::elements() const {
  std::uint64_t count = 0;
  for (const codec::ChangeLog& each : replaced_) count += each.changes();
  return count;
}

bool Rollback::copy(const ReplicatedState& state, std::span<std::byte* const> from,
                    std::span<std::byte* const> to) const {
  if (!to_) return false;
  codec::ChangeLog::Room room;
  try {
    for (const codec::ChangeLog& each : replaced_) each.make_room(*state.map, room);
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const codec::ChangeLog& each : replaced_)
    each.copy(*state.map, from, to, *state.kernels, room);
  return true;
}

Status Rollback::go(const ReplicatedState& state, const HeldVersion& held) {
  codec::ChangeLog::Room room;
  try {
    for (const codec::ChangeLog& each : replaced_) each.make_room(*state.map, room);
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory,
                  fmt::format("no memory to go back to version {}", to_->version));
  }
  Hash128 hash = held.hash;
  const auto exchange = [&](codec::ChangeLog& log) {
    return log.exchange_and_hash(*state.map, state.arrays, *state.kernels, room);
  };
  for (std::size_t i = replaced_.size(); i-- > 0;) hash = hash + exchange(replaced_[i]);
  if (hash == to_->hash) return {};
  for (codec::ChangeLog& each : replaced_) (void)exchange(each);
  return Status(Code::kCorrupt,
                fmt::format("the rollback to version {} leads to the state {} instead of {}. The "
                            "tensors do not hold version {} any more (their memory is damaged, or "
                            "the program wrote to them); they are as they were",
                            to_->version, to_hex(hash), to_hex(to_->hash), held.version));
}

}  // namespace sparcl::replication
