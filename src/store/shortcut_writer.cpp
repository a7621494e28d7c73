#include "src/store/shortcut_writer.hpp"

#include <fmt/format.h>

#include <new>
#include <vector>

#include "src/base/caught_error.hpp"
#include "src/base/log.hpp"
#include "src/codec/changed_state.hpp"
#include "src/net/signals_blocked.hpp"
#include "src/store/chain_path.hpp"
#include "src/store/stored_object.hpp"
#include "src/store/update_coding.hpp"

namespace sparcl::store {

void ShortcutWriter::forget() {
  history_.clear();
  history_bytes_ = 0;
}

void ShortcutWriter::note(const VersionRecord& record, Log replaced) noexcept {
  if (replaced == nullptr) return forget();
  try {
    history_bytes_ += replaced->bytes();
    history_.push_back({record, std::move(replaced)});
  } catch (const std::bad_alloc&) {
    return forget();
  }
  while (history_.size() > plan_.history || history_bytes_ > state_.map->byte_count()) {
    history_bytes_ -= history_.front().replaced->bytes();
    history_.pop_front();
  }
}

void ShortcutWriter::begin(const VersionRecord& record, bool with_anchor) noexcept {
  if (!with_anchor && !has_skips_at(record)) return;
  Status status;
  try {
    const net::SignalsBlocked blocked;
    thread_ = std::thread([this, record, with_anchor] { work(record, with_anchor); });
  } catch (...) {
    status = caught_error("no thread for anchors and skips");
  }
  if (!status.ok()) log_warn("the store gets no anchor and no skip: {}", status.message());
}

void ShortcutWriter::work(const VersionRecord& record, bool with_anchor) noexcept {
  Status status;
  try {
    status = write_all(record, with_anchor);
  } catch (...) {
    status = caught_error("anchors and skips could not be written");
  }
  if (!status.ok())
    log_warn("the store gets no anchor or no skip, or is not pruned: {}", status.message());
}

void ShortcutWriter::wait() {
  if (thread_.joinable()) thread_.join();
}

Result<PutAnchor> ShortcutWriter::put_anchor(std::uint64_t number, std::uint64_t version) {
  const std::string key = new_object_key("anchors", number, 0, writer_, ++attempts_);
  return store::put_anchor(chain_.store(), key, state_, version);
}

Status ShortcutWriter::add_anchor(const VersionRecord& record) {
  SPARCL_ASSIGN_OR_RETURN(PutAnchor put, put_anchor(record.number, record.version));
  if (put.hash != record.target_hash)
    return Status(Code::kInternalError, "an anchor is not its version");
  Shortcut anchor{
      record.number,       0, record.target(), {}, std::move(put.object), record.model_id,
      std::move(put.index)};
  SPARCL_RETURN_IF_ERROR(chain_.add(anchor));
  anchor_ = std::move(anchor);
  return {};
}

Status ShortcutWriter::put_skip(const VersionRecord& record, std::uint64_t length) {
  if (history_.size() < length) return {};
  codec::ChangedState::Logs logs;
  for (std::size_t i = history_.size() - length; i < history_.size(); ++i)
    logs.push_back(history_[i].replaced);
  const codec::ChangedState base(*state_.map, state_.arrays, std::move(logs), *state_.kernels);
  const VersionRecord& first = history_[history_.size() - length].record;
  codec::EncodeOptions options = encode_options(state_, first.base(), record.version);
  options.base_source = &base;
  const Effort effort = effort_.next();
  set_effort(options, effort);
  const std::vector<const std::byte*> none(state_.arrays.size(), nullptr);
  codec::UpdateEncoder encoder(*state_.map, none, readable(state_.arrays), options,
                               *state_.kernels);
  const std::uint64_t from = first.number - 1;
  const std::string key = new_object_key("skips", record.number, from, writer_, ++attempts_);
  CodingTimes times;
  SPARCL_ASSIGN_OR_RETURN(StoredObject object,
                          put_update(chain_.store(), key, state_, encoder, &times));
  effort_.note(effort, times);
  if (encoder.stats().target_hash != record.target_hash)
    return Status(Code::kInternalError, "a skip does not lead to its version");
  return chain_.add(
      {record.number, from, record.target(), first.base(), std::move(object), record.model_id});
}

Status ShortcutWriter::prune_old() {
  if (plan_.keep.versions == 0) return {};
  return prune(chain_, plan_.keep).status().with_prefix("old versions stay: ");
}

bool ShortcutWriter::has_skips_at(const VersionRecord& record) const {
  if (plan_.shape == ChainShape::kHybrid) return record.number % kSkipEvery == 0;
  return record.skips_from_anchor;
}

Status ShortcutWriter::put_skips(const VersionRecord& record) {
  if (!has_skips_at(record)) return {};
  if (plan_.shape == ChainShape::kIndependent)
    return put_skip(record, record.number - record.newest_anchor);
  for (const std::uint64_t length : kSkips) SPARCL_RETURN_IF_ERROR(put_skip(record, length));
  return {};
}

// Skips of an independent chain come first: readers that keep its last anchor need no other one.
Status ShortcutWriter::write_all(const VersionRecord& record, bool with_anchor) {
  const bool skips_first = plan_.shape == ChainShape::kIndependent;
  if (skips_first) SPARCL_RETURN_IF_ERROR(put_skips(record));
  if (with_anchor) SPARCL_RETURN_IF_ERROR(add_anchor(record));
  if (!skips_first) SPARCL_RETURN_IF_ERROR(put_skips(record));
  return with_anchor ? prune_old() : Status();
}

}  // namespace sparcl::store
