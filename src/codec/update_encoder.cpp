#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>

#include "src/base/bytes.hpp"
#include "src/base/worker_pool.hpp"
#include "src/codec/block_encoder.hpp"
#include "src/codec/class_regions.hpp"
#include "src/codec/frame_writer.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/update.hpp"
#include "src/codec/update_header.hpp"

namespace sparcl::codec {
namespace {

// The share of one of several workers. Blocks share sections only inside a region of a run, so that
// the bytes do not depend on the number of workers.
constexpr std::uint64_t kRegionBlocks = ClassRegions::kRegionBlocks;

EncoderInput input_of(const BlockMap& map, std::span<const std::byte* const> base,
                      std::span<const std::byte* const> target, const EncodeOptions& options,
                      const kernels::KernelSet& kernels) {
  EncoderInput input{map,
                     {{base.begin(), base.end()}, options.base_source},
                     {{target.begin(), target.end()}, options.target_source},
                     options,
                     {options.hints.begin(), options.hints.end()},
                     kernels,
                     true};
  for (std::size_t i = 0; i < base.size() && i < map.arrays().size(); ++i) {
    input.has_whole_base = input.has_whole_base && (input.base.has(static_cast<std::uint32_t>(i)) ||
                                                    map.arrays()[i].count == 0);
  }
  return input;
}

}  // namespace

struct UpdateEncoder::Impl {
  Impl(const BlockMap& map, std::span<const std::byte* const> base,
       std::span<const std::byte* const> target, const EncodeOptions& options,
       const kernels::KernelSet& kernels)
      : input(input_of(map, base, target, options, kernels)),
        regions(map, sample_on_host(map, input.base, input.target), options.mode == &kClassesMode) {
    // Lists of indices are read in one sequential pass.
    const bool alone = options.workers == nullptr || !options.hints.empty();
    for (unsigned i = 0; i < (alone ? 1 : options.workers->size()); ++i)
      workers.push_back(std::make_unique<BlockEncoder>(input));
    shares.resize(workers.size());
    statuses.resize(workers.size());
    stats.elements = map.element_count();
  }

  Status check() const;
  Status check_blocks() const;
  Status step(std::uint64_t budget_elements, ByteSink& sink);
  Status start(ByteSink& sink);
  Status encode_some(ByteSink& sink);
  std::uint64_t region_end() const;
  CodingUnit take_unit();
  Status encode_shares(std::size_t count);
  void encode_share(unsigned worker);
  void write(const CodedBlocks& coded, ByteSink& sink);
  void write_block(const CodedBlock& block, const std::byte* payload, ByteSink& sink);
  void end(ByteSink& sink);
  void end_chunk(ByteSink& sink);
  void note_chunk() { chunks.push_back({frame.total_bytes(), written_block, frame.crc()}); }

  const EncoderInput input;
  std::vector<std::unique_ptr<BlockEncoder>> workers;
  std::vector<std::vector<CodingUnit>> shares;  // of each worker
  std::vector<Status> statuses;
  ClassRegions regions;

  EncodeStats stats;
  FrameWriter frame;
  std::vector<ChunkStart> chunks;
  Status error;  // the first error: blocks after it are missing
  bool started = false;
  bool finished = false;
  std::uint64_t next_block = 0;     // the next to hand out
  std::uint64_t written_block = 0;  // the block after the last that was written
  std::uint64_t written_table = 0;  // the number of the last one; 0: none
  std::uint64_t done_elements = 0;
  std::uint64_t coded_elements = 0;
  Hash128 whole_sum;
  Hash128 change_sum;  // the changes' addition to the base's
  std::vector<Piece> pieces;
};

Status UpdateEncoder::Impl::check() const {
  if (input.base.arrays.size() != input.map.arrays().size() ||
      input.target.arrays.size() != input.map.arrays().size()) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} base and {} target arrays for {} in the map", input.base.arrays.size(),
                    input.target.arrays.size(), input.map.arrays().size()));
  }
  for (std::uint32_t i = 0; i < input.target.arrays.size(); ++i) {
    if (!input.target.has(i) && input.map.arrays()[i].count > 0)
      return Status(Code::kInvalidArgument, fmt::format("target array {} is NULL", i));
  }
  if (input.options.attachment.size() > kMaxAttachmentBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("an attachment of {} bytes: at most {} travel with an update",
                              input.options.attachment.size(), kMaxAttachmentBytes));
  }
  SPARCL_RETURN_IF_ERROR(check_blocks());
  return workers.front()->check_hints();
}

Status UpdateEncoder::Impl::check_blocks() const {
  const EncodeOptions& options = input.options;
  if (!input.is_of_some_blocks()) return {};
  if (options.only_blocks.size() * 64 < input.map.block_count()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("only_blocks has {} bits: the arrays have {} blocks",
                              options.only_blocks.size() * 64, input.map.block_count()));
  }
  bool has_base = false;
  for (std::uint32_t i = 0; i < input.base.arrays.size(); ++i)
    has_base = has_base || input.base.has(i);
  if (!options.with_state_hash || !options.base_hash || !options.target_hash || has_base) {
    return Status(
        Code::kInvalidArgument,
        "an update of some blocks has no base but its hash, and names that and its target's");
  }
  return {};
}

Status UpdateEncoder::Impl::start(ByteSink& sink) {
  SPARCL_RETURN_IF_ERROR(check());
  std::uint32_t flags = 0;
  if (input.options.with_state_hash)
    flags = kFlagTargetHash | (input.says_base() ? kFlagBaseHash : 0);
  const UpdateHeader header{input.options.base_version,
                            input.options.target_version,
                            input.options.schema_hash,
                            layout_hash(input.map),
                            input.map.element_count(),
                            static_cast<std::uint32_t>(input.map.arrays().size()),
                            flags};
  frame.write_prefix(StreamKind::kUpdate, sink);
  frame.write_checked_section(kTagUpdateHeader, serialise(header), sink);
  if (!input.options.attachment.empty())
    frame.write_section(kTagAttachment, input.options.attachment, sink);
  if (const std::vector<std::byte> runs = serialise_runs(input.map);
      input.options.with_runs && runs.size() <= kMaxSectionBytes) {
    frame.write_section(kTagRuns, runs, sink);
  }
  note_chunk();
  started = true;
  return {};
}

// The next superblock, if classes gain there; otherwise the next block.
CodingUnit UpdateEncoder::Impl::take_unit() {
  CodingUnit unit{next_block, next_block + 1, nullptr, false};
  const std::uint64_t end = region_end();
  if (const auto superblock = superblock_at(input.map, next_block);
      superblock && input.allows_classes()) {
    unit.table = regions.table_for(*superblock);
    if (unit.table != nullptr) unit.last = superblock->last;
  }
  unit.ends_region = unit.last == end;
  next_block = unit.last;
  return unit;
}

// Encodes a unit with one worker; otherwise at least a region for each worker. The results are
// written to the stream in order.
Status UpdateEncoder::Impl::encode_some(ByteSink& sink) {
  std::size_t count = 0;
  for (; count < workers.size() && next_block < input.map.block_count(); ++count) {
    const std::uint64_t first = next_block;
    shares[count].clear();
    do {
      shares[count].push_back(take_unit());
    } while (workers.size() > 1 && next_block < input.map.block_count() &&
             (!shares[count].back().ends_region || next_block - first < kRegionBlocks));
  }
  SPARCL_RETURN_IF_ERROR(encode_shares(count));
  for (std::size_t i = 0; i < count; ++i) write(workers[i]->coded(), sink);
  return {};
}

// The first block after the region of next_block.
std::uint64_t UpdateEncoder::Impl::region_end() const {
  const BlockMap::BlockRun run = input.map.run_of(next_block);
  return std::min(run.end(),
                  next_block + kRegionBlocks - (next_block - run.first_block) % kRegionBlocks);
}

Status UpdateEncoder::Impl::encode_shares(std::size_t count) {
  if (count == 1) {
    encode_share(0);
  } else {
    input.options.workers->run(static_cast<unsigned>(count), [this](unsigned i) {
      try {
        encode_share(i);
      } catch (const std::bad_alloc&) {  // must not leave the thread
        statuses[i] = no_memory();
      }
    });
  }
  for (std::size_t i = 0; i < count; ++i) SPARCL_RETURN_IF_ERROR(statuses[i]);
  return {};
}

void UpdateEncoder::Impl::encode_share(unsigned worker) {
  BlockEncoder& own = *workers[worker];
  own.coded().clear();
  statuses[worker] = {};
  for (const CodingUnit& unit : shares[worker]) {
    if (statuses[worker].ok()) statuses[worker] = own.encode(unit);
  }
}

void UpdateEncoder::Impl::write(const CodedBlocks& coded, ByteSink& sink) {
  done_elements += coded.elements;
  whole_sum = whole_sum + coded.whole_sum;
  stats.lossy.add(coded.lossy);
  stats.left_out.add(coded.left_out);
  const std::byte* payload = coded.payloads.data();
  for (const CodedBlock& block : coded.blocks) {
    write_block(block, payload, sink);
    if (!block.is_target) payload += block.bytes;
  }
}

void UpdateEncoder::Impl::write_block(const CodedBlock& block, const std::byte* payload,
                                      ByteSink& sink) {
  if (block.table != nullptr && block.table->number != written_table) {
    std::array<std::byte, kMaxTableBytes> content;
    store(block.table->table, content.data());
    frame.write_section(kTagClassTable, {content.data(), block.table->table.bytes()}, sink);
    written_table = block.table->number;
  }
  std::byte* out =
      frame.begin_block(block.mode->id, block.index - written_block, block.bytes, sink);
  if (block.is_target) {
    const DataType datatype = input.map.block(block.index, pieces);
    copy_block({shape_of(datatype, pieces), pieces, input.target.arrays}, out);
  } else {
    std::memcpy(out, payload, block.bytes);
  }
  frame.end_block(block.hashes.old_values, block.hashes.new_values, sink);
  written_block = block.last;
  change_sum = change_sum + block.hashes.new_values - block.hashes.old_values;
  stats.changed += block.changed;
  coded_elements += block.elements;
  if (frame.chunk_is_full()) end_chunk(sink);
}

void UpdateEncoder::Impl::end_chunk(ByteSink& sink) {
  const std::uint64_t before = frame.total_bytes();
  frame.end_chunk(sink);
  if (frame.total_bytes() != before) note_chunk();
}

void UpdateEncoder::Impl::end(ByteSink& sink) {
  end_chunk(sink);
  if (stats.left_out.count > 0) frame.write_section(kTagLeftOut, serialise(stats.left_out), sink);
  ByteWriter content;
  content.write(frame.blocks());
  content.write(coded_elements);
  content.write(stats.changed);
  if (input.options.with_state_hash) {
    stats.target_hash = input.options.schema_hash + whole_sum;
    if (input.is_of_some_blocks()) {
      stats.base_hash = *input.options.base_hash;
      stats.target_hash = *input.options.target_hash;
    } else if (input.has_whole_base) {
      stats.base_hash = input.options.base_hash.value_or(stats.target_hash);
      stats.target_hash = stats.base_hash + change_sum;
    }
    if (input.says_base()) {
      content.write(stats.base_hash.low);
      content.write(stats.base_hash.high);
    }
    content.write(stats.target_hash.low);
    content.write(stats.target_hash.high);
  }
  frame.write_checked_section(kTagEnd, content.bytes(), sink);
  stats.encoded_bytes = frame.total_bytes();
  finished = true;
}

Status UpdateEncoder::Impl::step(std::uint64_t budget_elements, ByteSink& sink) {
  if (finished) return {};
  if (!started) SPARCL_RETURN_IF_ERROR(start(sink));
  const std::uint64_t before = done_elements;
  while (next_block < input.map.block_count()) {
    const std::uint64_t done = done_elements - before;
    if (done > 0 && done >= budget_elements) return {};
    SPARCL_RETURN_IF_ERROR(encode_some(sink));
  }
  end(sink);
  return {};
}

UpdateEncoder::UpdateEncoder(const BlockMap& map, std::span<const std::byte* const> base,
                             std::span<const std::byte* const> target, const EncodeOptions& options,
                             const kernels::KernelSet& kernels)
    : impl_(std::make_unique<Impl>(map, base, target, options, kernels)) {}

UpdateEncoder::~UpdateEncoder() = default;

Status UpdateEncoder::step(std::uint64_t budget_elements, ByteSink& sink) {
  if (impl_->error.ok()) impl_->error = impl_->step(budget_elements, sink);
  return impl_->error;
}

ChangeLog UpdateEncoder::replaced() const {
  ChangeLog log;
  for (const auto& worker : impl_->workers) worker->forward().add_to(log);
  log.finish();
  return log;
}

void UpdateEncoder::keep_forward() {
  for (const auto& worker : impl_->workers) worker->forward().keep();
}
bool UpdateEncoder::finished() const { return impl_->finished; }
const EncodeStats& UpdateEncoder::stats() const { return impl_->stats; }
std::span<const ChunkStart> UpdateEncoder::chunk_starts() const { return impl_->chunks; }

}  // namespace sparcl::codec
