
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/worker_pool.hpp"
#include "src/codec/base_check.hpp"
#include "src/codec/block_decoder.hpp"
#include "src/codec/frame_reader.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/superblock.hpp"
#include "src/codec/update.hpp"
#include "src/codec/update_decoder_impl.hpp"

namespace sparcl::codec {
namespace {

// Blocks for each of several workers: enough to make the distribution cheap. Heuristic.
constexpr std::uint64_t kMinShare = 64;

// If more bytes than this are sent whole, they are written past the caches, which would not keep
// them. Heuristic: 64 MB in each of eight processes on two cores take 25 ms instead of 39.
constexpr std::uint64_t kCachedBytes = std::uint64_t{32} << 20;

}  // namespace

void UpdateDecoder::Impl::add_worker() {
  workers.push_back(std::make_unique<BlockDecoder>(input, writing));
  if (writing == Writing::kOver)
    workers.back()->begin_writes(input.map.byte_count() > kCachedBytes ? kernels::Output::kStreamed
                                                                       : kernels::Output::kCached);
}

// Running out of memory is a normal error: a half-finished step must not be continued.
void UpdateDecoder::Impl::advance_or_fail(const Staging& staging, std::uint64_t available,
                                          std::uint64_t budget_blocks, bool& more) try {
  error = advance(staging, available, budget_blocks, more);
} catch (const std::bad_alloc&) {
  error = no_memory();
}

// One worker handles blocks one by one. Several workers handle together all blocks that are
// available before the next section of another kind.
Status UpdateDecoder::Impl::advance(const Staging& staging, std::uint64_t available,
                                    std::uint64_t budget_blocks, bool& more) {
  more = false;
  for (std::uint64_t budget =
           std::max(budget_blocks, workers.size() == 1 ? 1 : kMinShare * workers.size());
       ;) {
    if (elsewhere != nullptr) {
      SPARCL_ASSIGN_OR_RETURN(const bool is_taken, hand_over(staging));
      more = !is_taken;  // messages are sent meanwhile
      if (more) return {};
    }
    if (!section) {
      Section found_section;
      bool found = false;
      SPARCL_RETURN_IF_ERROR(frame.next(staging, available, found_section, found));
      if (!found) return check_batch(staging);
      section = found_section;
      bool is_held = true;
      if (is_block(section->tag)) {
        SPARCL_ASSIGN_OR_RETURN(is_held, add_entry(staging, *section));
      }
      if (!is_held) {
        section.reset();
        continue;
      }
    }
    const std::uint64_t hashed_end = hashes_before(*section);
    hash_unchanged(hashed_end, budget);
    if (budget == 0 && (is_block(section->tag) || hashed_block < hashed_end)) {
      more = true;
      return check_batch(staging);
    }
    if (!is_block(section->tag)) {
      SPARCL_RETURN_IF_ERROR(check_batch(staging));
      SPARCL_ASSIGN_OR_RETURN(const bool is_checked,
                              elsewhere != nullptr ? elsewhere->flush(staging) : true);
      more = !is_checked;
      if (more) return {};
      SPARCL_RETURN_IF_ERROR(handle(staging, *section));
    } else {
      const BlockEntry& entry = entries.back();
      budget -= std::min(budget, entry.last - entry.index);
      hashed_block = entry.last;
      ++batch_end;
      if (workers.size() == 1) SPARCL_RETURN_IF_ERROR(check_batch(staging));
    }
    section.reset();
  }
}

// With kFull: all blocks below the result must be in the hashes before this section is handled.
std::uint64_t UpdateDecoder::Impl::hashes_before(const Section& found) const {
  if (input.verify != Verify::kFull || elsewhere != nullptr || writing == Writing::kOver) return 0;
  if (is_block(found.tag)) return entries.back().index;
  return found.tag == kTagEnd ? input.map.block_count() : 0;
}

// Hashes the blocks below `end` that the update does not change, within the budget.
void UpdateDecoder::Impl::hash_unchanged(std::uint64_t end, std::uint64_t& budget) {
  if (hashed_block >= end || budget == 0) return;
  BlockCheck unchanged(input.verify, input.kernels);
  std::vector<Piece> pieces;
  for (; hashed_block < end && budget > 0; ++hashed_block, --budget) {
    const DataType datatype = input.map.block(hashed_block, pieces);
    unchanged.add_unchanged(hashed_block,
                            WritableBlockView{shape_of(datatype, pieces), pieces, input.held});
  }
  check.add(unchanged.take_sums());
}

Status UpdateDecoder::Impl::handle(const Staging& staging, const Section& found) {
  if (workers.size() == 1) workers[0]->flush();
  take_findings();
  const std::byte* at =
      staging.contiguous(found.first, static_cast<std::size_t>(found.bytes), scratch);
  switch (found.tag) {
    case kTagUpdateHeader:
      return read_header(at);
    case kTagAttachment:
      attachment.assign(at, at + found.bytes);
      return {};
    case kTagClassTable:
      return add_table(at, found.bytes);
    case kTagChunkEnd:
      return read_chunk_end(at);
    default:
      return read_end(at, found.bytes);
  }
}

// Passes entries to `elsewhere`. False: not all were taken.
Result<bool> UpdateDecoder::Impl::hand_over(const Staging& staging) {
  for (; batch_begin < batch_end; ++batch_begin) {
    const Result<bool> is_taken = elsewhere->check(staging, entries[batch_begin]);
    if (!is_taken.ok() || !*is_taken) return is_taken;
  }
  return true;
}

std::uint64_t UpdateDecoder::Impl::whole_elements() const {
  std::uint64_t elements = 0;
  for (const BlockEntry& entry : entries) {
    if (find_block_mode(entry.mode)->whole)
      elements += input.map.run_of(entry.index).elements(entry.index, entry.last);
  }
  return elements;
}

// Neighbouring entries to each worker, with about as many blocks each.
Status UpdateDecoder::Impl::check_batch(const Staging& staging) {
  if (batch_begin == batch_end || elsewhere != nullptr) return {};
  if (workers.size() == 1) {
    for (; batch_begin < batch_end; ++batch_begin)
      SPARCL_RETURN_IF_ERROR(workers[0]->check(staging, entries[batch_begin]));
    return {};
  }
  std::uint64_t blocks = 0;
  for (std::size_t i = batch_begin; i < batch_end; ++i)
    blocks += entries[i].last - entries[i].index;
  std::uint64_t before = 0;
  for (std::size_t i = batch_begin; i < batch_end; ++i) {
    entries[i].worker = static_cast<std::uint32_t>(before * workers.size() / blocks);
    before += entries[i].last - entries[i].index;
  }
  run([&](unsigned i) { return check_share(staging, i); });
  batch_begin = batch_end;
  for (const Status& status : statuses) SPARCL_RETURN_IF_ERROR(status);
  return {};
}

// Runs the workers and sets their statuses.
template <class Work>
void UpdateDecoder::Impl::run(const Work& work) {
  if (workers.size() == 1) {
    statuses[0] = work(0);
    return;
  }
  pool->run(static_cast<unsigned>(workers.size()), [&](unsigned i) {
    try {
      statuses[i] = work(i);
    } catch (const std::bad_alloc&) {  // must not leave the thread
      statuses[i] = no_memory();
    }
  });
}

Status UpdateDecoder::Impl::check_share(const Staging& staging, unsigned worker) {
  for (std::size_t i = batch_begin; i < batch_end; ++i) {
    if (entries[i].worker == worker)
      SPARCL_RETURN_IF_ERROR(workers[worker]->check(staging, entries[i]));
  }
  workers[worker]->flush();
  return {};
}

void UpdateDecoder::Impl::take_findings() {
  if (elsewhere != nullptr) return add(elsewhere->take_findings());
  bool all_active = true;
  for (const auto& worker : workers) {
    add(worker->take_findings());
    all_active = all_active && worker->early().active();
  }
  if (!all_active) stop_early();
}

void UpdateDecoder::Impl::add(const BlockFindings& found) {
  check.add(found.sums);
  fits_held = fits_held && found.sums.fits;
  coded_elements += found.elements;
  if (found.odd_blocks && (!odd_blocks || found.odd_blocks->first < odd_blocks->first))
    odd_blocks = found.odd_blocks;
}

void UpdateDecoder::Impl::stop_early() {
  for (const auto& worker : workers) worker->early().stop();
}

// Prepares apply() and take_replaced(), so that they allocate nothing.
void UpdateDecoder::Impl::join_changes() try {
  if (!keeps_changes()) return;
  for (const auto& worker : workers) changes.append(worker->take_changes());
  changes.finish();
  rooms.resize(workers.size());
  for (ChangeLog::Room& room : rooms) changes.make_room(input.map, room);
} catch (const std::bad_alloc&) {
  changes_budget.spend_all();
  changes = {};
}

Status UpdateDecoder::Impl::apply(const Staging& staging) {
  if (writing == Writing::kOver) return {};  // written already
  if (check.already_applied()) stop_early();
  if (elsewhere != nullptr) return elsewhere->apply(staging, entries, check.already_applied());
  std::uint64_t whole_bytes = 0;
  for (const BlockEntry& entry : entries)
    whole_bytes += find_block_mode(entry.mode)->whole ? entry.bytes : 0;
  whole_blocks = whole_bytes > kCachedBytes ? kernels::Output::kStreamed : kernels::Output::kCached;
  run([&](unsigned i) { return apply_share(staging, i); });
  for (const Status& status : statuses) SPARCL_RETURN_IF_ERROR(status);
  for (const auto& worker : workers) worker->early().keep();
  return {};
}

Status UpdateDecoder::Impl::apply_share(const Staging& staging, unsigned worker) {
  BlockDecoder& own = *workers[worker];
  if (keeps_changes()) {
    const std::size_t first = changes.size() * worker / workers.size();
    const std::size_t last = changes.size() * (worker + 1) / workers.size();
    changes.exchange(first, last, input.map, input.held, input.kernels, rooms[worker]);
    return {};
  }
  own.begin_writes(whole_blocks);
  for (const BlockEntry& entry : entries) {
    if (entry.worker != worker) continue;
    // Fresh blocks are written even if the target is held already: their old values were not
    // checked.
    if (check.already_applied() && !find_block_mode(entry.mode)->fresh) continue;
    if (own.early().active() && !find_block_mode(entry.mode)->whole) continue;
    if (const Status status = own.apply(staging, entry); !status.ok()) {
      return Status(Code::kInternalError,
                    "an update that had passed its check failed to decode: " + status.message());
    }
    SPARCL_FAILPOINT("update.staged_write");
  }
  own.flush_writes();
  return {};
}

UpdateDecoder::UpdateDecoder(const BlockMap& map, std::span<std::byte* const> held, Verify verify,
                             const Hash128& expected_schema, const kernels::KernelSet& kernels,
                             Writing writing)
    : impl_(std::make_unique<Impl>(map, held, verify, expected_schema, kernels, writing)) {}

UpdateDecoder::~UpdateDecoder() = default;

void UpdateDecoder::set_array_name(ArrayName name) { impl_->input.array_name = std::move(name); }

Status UpdateDecoder::advance(const Staging& staging, std::uint64_t available,
                              std::uint64_t budget_blocks, bool& more) {
  more = false;
  if (impl_->error.ok()) impl_->advance_or_fail(staging, available, budget_blocks, more);
  if (!impl_->error.ok())
    impl_->stop_early();  // at once: the caller may read its arrays while it keeps the
                          // decoder
  return impl_->error;
}

void UpdateDecoder::set_window(const BlockWindow& window) { impl_->input.window = &window; }

Status UpdateDecoder::go_on_at(const ChunkStart& start) {
  Impl& own = *impl_;
  if (!own.error.ok()) return own.error;
  if (own.section || start.block < own.next_block || !own.frame.go_on_at(start.byte, start.crc))
    own.error = corrupt_at(start.byte, "no chunk that can be read alone begins there");
  own.next_block = start.block;
  return own.error;
}

Status UpdateDecoder::end_before(const ChunkStart& next) {
  Impl& own = *impl_;
  const bool is_there = !own.section && own.frame.is_between_chunks() &&
                        own.frame.position() == next.byte && own.next_block == next.block;
  if (own.error.ok() && !is_there)
    own.error = corrupt_at(
        own.frame.position(),
        fmt::format("a chunk before block {} should end at byte {}", next.block, next.byte));
  return own.error;
}

Status UpdateDecoder::finish_chunks() {
  Impl& own = *impl_;
  if (own.error.ok() && own.window_blocks != own.input.window->block_count())
    own.error =
        Status(Code::kCorrupt, fmt::format("it writes {} of {} blocks, and no base is held",
                                           own.window_blocks, own.input.window->block_count()));
  own.finished = own.error.ok();
  return own.error;
}

std::uint64_t UpdateDecoder::used_bytes() const {
  return impl_->section ? impl_->section->first : impl_->frame.position();
}

Status UpdateDecoder::finish(std::uint64_t stream_bytes) {
  if (impl_->error.ok()) impl_->error = impl_->frame.finish(stream_bytes);
  if (impl_->error.ok() && !impl_->ended) {
    impl_->error =
        Status(Code::kInternalError, "finish() came before advance() had checked all blocks");
  }
  if (impl_->error.ok()) impl_->join_changes();
  impl_->finished = impl_->error.ok();
  if (!impl_->finished) impl_->stop_early();
  return impl_->error;
}

bool UpdateDecoder::already_applied() const {
  return impl_->finished && impl_->check.already_applied();
}
std::uint64_t UpdateDecoder::base_version() const { return impl_->header.base_version; }
std::uint64_t UpdateDecoder::target_version() const { return impl_->header.target_version; }
bool UpdateDecoder::writes_all() const {
  return impl_->whole_elements() == impl_->input.map.element_count();
}
std::uint64_t UpdateDecoder::changed() const { return impl_->changed; }
std::span<const std::byte> UpdateDecoder::attachment() const { return impl_->attachment; }
std::optional<Hash128> UpdateDecoder::base_hash() const { return impl_->base_hash; }
std::optional<Hash128> UpdateDecoder::target_hash() const { return impl_->target_hash; }
void UpdateDecoder::set_workers(WorkerPool& pool) {
  impl_->pool = &pool;
  while (impl_->workers.size() < pool.size()) impl_->add_worker();
  if (impl_->changes_budget.max_bytes > 0) keep_changes(impl_->changes_budget.max_bytes);
  impl_->statuses.resize(pool.size());
}

void UpdateDecoder::set_elsewhere(BlocksElsewhere& elsewhere) { impl_->elsewhere = &elsewhere; }

void UpdateDecoder::keep_changes(std::uint64_t max_bytes) {
  impl_->changes_budget.max_bytes = max_bytes;
  for (const auto& worker : impl_->workers) worker->keep_changes(impl_->changes_budget);
}

std::optional<ChangeLog> UpdateDecoder::take_replaced() {
  if (!impl_->keeps_changes()) return {};
  return std::exchange(impl_->changes, {});
}

void UpdateDecoder::track(const Hash128& held_hash) { impl_->check.track(held_hash); }

void UpdateDecoder::write_to(std::span<std::byte* const> arrays) {
  impl_->input.held.assign(arrays.begin(), arrays.end());
}

Status UpdateDecoder::apply(const Staging& staging) {
  if (!impl_->finished)
    return Status(Code::kInvalidUsage, "apply() before finish() has approved the update");
  return impl_->apply(staging);
}

}  // namespace sparcl::codec
