#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/change_rule.hpp"
#include "src/codec/change_scan.hpp"
#include "src/codec/early_writer.hpp"
#include "src/codec/frame_writer.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/update.hpp"
#include "src/codec/update_header.hpp"

namespace sparcl::codec {

struct UpdateEncoder::Impl {
  Impl(const BlockMap& block_map, std::span<const std::byte* const> base_arrays, std::span<const std::byte* const> target_arrays,
       const EncodeOptions& encode_options, const kernels::KernelSet& kernel_set)
      : map(block_map),
        base(base_arrays.begin(), base_arrays.end()),
        target(target_arrays.begin(), target_arrays.end()),
        options(encode_options),
        hints(encode_options.hints.begin(), encode_options.hints.end()),
        kernels(kernel_set),
        scan(map, base, target, hints, kernels),
        forward(map, options.bring_forward, kernels, !options.bring_forward.empty()) {
    changes.kernels = &kernels;
    changes.has_steps = true;
    changes.forced = options.mode != nullptr;
    stats.elements = map.element_count();
    for (std::size_t i = 0; i < base.size(); ++i)
      has_whole_base = has_whole_base && (base[i] != nullptr || map.arrays()[i].count == 0);
  }

  Status check() const;
  Status start(ByteSink& sink);
  Status encode_block(std::uint64_t index, ByteSink& sink);
  std::size_t apply_rule(std::uint64_t index, DataType datatype, std::size_t found);
  void encode_changes(std::uint64_t index, std::size_t count, ByteSink& sink);
  void encode_fresh(ByteSink& sink);
  Hash128 hash_block(std::span<const std::byte* const> arrays, std::uint64_t index, std::vector<std::byte>& scratch) const {
    return block_hash(view(arrays), index, kernels, scratch);
  }
  kernels::ChangeHashes hash_changes(const BlockMode& mode, std::uint64_t index);
  void write_block(const ModeChoice& choice, const kernels::ChangeHashes& hashes, ByteSink& sink);
  void end(ByteSink& sink);

  bool lacks_base() const {
    return std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) { return base[piece.array] == nullptr; });
  }
  BlockView view(std::span<const std::byte* const> arrays) const { return {changes.shape(), pieces, arrays}; }

  const BlockMap& map;
  std::vector<const std::byte*> base;
  std::vector<const std::byte*> target;
  EncodeOptions options;
  std::vector<const ChangedHint*> hints;
  const kernels::KernelSet& kernels;
  ChangeScan scan;
  EarlyWriter forward;

  EncodeStats stats;
  FrameWriter frame;
  bool has_whole_base = true;
  bool started = false;
  bool finished = false;
  std::uint64_t next_block = 0;
  std::uint64_t gap = 0;  // unchanged blocks since the last that was written
  std::uint64_t coded_elements = 0;
  Hash128 whole_sum;   // over all blocks of the base, or of the target where the base is not whole or not asked for
  Hash128 change_sum;  // what the changes add to the base's

  std::vector<Piece> pieces;
  BlockChanges changes;
  std::vector<std::byte> base_scratch;
  std::vector<std::byte> target_scratch;
  std::vector<std::byte> ruled_block;
  std::byte* ruled_array = nullptr;
  Piece ruled_piece{};
};

Status UpdateEncoder::Impl::check() const {
  if (base.size() != map.arrays().size() || target.size() != map.arrays().size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} base and {} target arrays for {} in the map", base.size(), target.size(), map.arrays().size()));
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == nullptr && map.arrays()[i].count > 0)
      return Status(Code::kInvalidArgument, fmt::format("target array {} is NULL", i));
  }
  if (options.attachment.size() > kMaxAttachmentBytes) {
    return Status(Code::kInvalidArgument, fmt::format("an attachment of {} bytes: at most {} travel with an update",
                                                      options.attachment.size(), kMaxAttachmentBytes));
  }
  return scan.check();
}

Status UpdateEncoder::Impl::start(ByteSink& sink) {
  SPARCL_RETURN_IF_ERROR(check());
  std::uint32_t flags = 0;
  if (options.with_state_hash) flags = kFlagTargetHash | (has_whole_base ? kFlagBaseHash : 0);
  const UpdateHeader header{options.base_version,
                            options.target_version,
                            options.schema_hash,
                            layout_hash(map),
                            map.element_count(),
                            static_cast<std::uint32_t>(map.arrays().size()),
                            flags};
  frame.write_prefix(StreamKind::kUpdate, sink);
  frame.write_checked_section(kTagUpdateHeader, serialise(header), sink);
  if (!options.attachment.empty()) frame.write_section(kTagAttachment, options.attachment, sink);
  if (const std::vector<std::byte> runs = serialise_runs(map); options.with_runs && runs.size() <= kMaxSectionBytes) {
    frame.write_section(kTagRuns, runs, sink);
  }
  started = true;
  return {};
}

Status UpdateEncoder::Impl::encode_block(std::uint64_t index, ByteSink& sink) {
  const DataType datatype = map.block(index, pieces);
  changes.target = {shape_of(datatype, pieces), pieces, target};
  changes.fresh = !has_whole_base && lacks_base();
  std::size_t count = 0;
  if (!changes.fresh) {
    changes.make_room();
    SPARCL_RETURN_IF_ERROR(
        scan.scan(datatype, pieces, {changes.positions.data(), changes.old_values.data(), changes.new_values.data()}, count));
    if (options.rule != nullptr && has_whole_base && count > 0) count = apply_rule(index, datatype, count);
  }
  if (options.with_state_hash && !has_whole_base) {
    whole_sum = whole_sum + hash_block(target, index, target_scratch);
  } else if (options.with_state_hash && !options.base_hash) {
    whole_sum = whole_sum + hash_block(base, index, base_scratch);
  }
  if (changes.fresh) {
    encode_fresh(sink);
  } else if (count > 0) {
    encode_changes(index, count, sink);
  } else {
    ++gap;
  }
  if (frame.chunk_is_full()) frame.end_chunk(sink);
  return {};
}

// Keeps what the rule leaves. Where that is so much that a mode may want the whole block, the target is made anew: the base with what
// is sent, which is what the receivers will hold.
std::size_t UpdateEncoder::Impl::apply_rule(std::uint64_t index, DataType datatype, std::size_t found) {
  const std::size_t count = options.rule->keep(
      {index, datatype, pieces, changes.positions.data(), changes.old_values.data(), changes.new_values.data(), found});
  const BlockShape shape = changes.shape();
  if (count == found || count < shape.elements / 8) return count;
  ruled_block.resize(shape.bytes());
  copy_block(view(base), ruled_block.data());
  ruled_array = ruled_block.data();
  ruled_piece = {0, 0, shape.elements, 0};
  const WritableBlockView ruled{shape, {&ruled_piece, 1}, {&ruled_array, 1}};
  scatter(kernels, ruled, {changes.positions.data(), count}, changes.new_values.data());
  changes.target = ruled;
  return count;
}

void UpdateEncoder::Impl::encode_fresh(ByteSink& sink) {
  stats.changed += changes.shape().elements;
  coded_elements += changes.shape().elements;
  write_block({&kFreshMode, changes.shape().bytes()}, {}, sink);
}

void UpdateEncoder::Impl::encode_changes(std::uint64_t index, std::size_t count, ByteSink& sink) {
  const BlockShape shape = changes.shape();
  const std::size_t value_bytes = count * shape.element_bytes();
  changes.set_changes(count);

  ModeChoice choice{options.mode, options.mode != nullptr ? options.mode->cost(changes) : kCannot};
  if (choice.bytes == kCannot) choice = choose_mode(changes);
  stats.changed += count;
  coded_elements += choice.mode->whole ? shape.elements : count;
  const kernels::ChangeHashes hashes = hash_changes(*choice.mode, index);
  change_sum = change_sum + hashes.new_values - hashes.old_values;
  write_block(choice, hashes, sink);
  if (forward.active()) {
    forward.write(index, {shape, pieces, options.bring_forward}, {changes.positions.data(), count},
                  {changes.old_values.data(), value_bytes}, {changes.new_values.data(), value_bytes});
  }
}

// Of what the receiver will see of them: the changed elements, or all of the block.
kernels::ChangeHashes UpdateEncoder::Impl::hash_changes(const BlockMode& mode, std::uint64_t index) {
  if (mode.whole) return {hash_block(base, index, base_scratch), block_hash(changes.target, index, kernels, target_scratch)};
  return changes_hash(kernels, changes.shape().datatype, {changes.positions.data(), changes.count}, changes.old_values.data(),
                      changes.new_values.data(), index);
}

void UpdateEncoder::Impl::write_block(const ModeChoice& choice, const kernels::ChangeHashes& hashes, ByteSink& sink) {
  const std::size_t check_bytes = choice.mode->whole ? 0 : kOldCheckBytes;
  std::byte* payload = frame.begin_block(choice.mode->id, gap, choice.bytes, sink, check_bytes);
  choice.mode->encode(changes, payload);
  if (check_bytes > 0) store_le(payload + choice.bytes, old_check_of(hashes.old_values));
  frame.end_block(hashes.old_values, hashes.new_values, sink);
  gap = 0;
}

void UpdateEncoder::Impl::end(ByteSink& sink) {
  frame.end_chunk(sink);
  ByteWriter content;
  content.write(frame.blocks());
  content.write(coded_elements);
  content.write(stats.changed);
  if (options.with_state_hash) {
    stats.target_hash = options.schema_hash + whole_sum;
    if (has_whole_base) {
      stats.base_hash = options.base_hash.value_or(stats.target_hash);
      stats.target_hash = stats.base_hash + change_sum;
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

UpdateEncoder::UpdateEncoder(const BlockMap& map, std::span<const std::byte* const> base, std::span<const std::byte* const> target,
                             const EncodeOptions& options, const kernels::KernelSet& kernels)
    : impl_(std::make_unique<Impl>(map, base, target, options, kernels)) {}

UpdateEncoder::~UpdateEncoder() = default;

Status UpdateEncoder::step(std::uint64_t budget_elements, ByteSink& sink) {
  Impl& impl = *impl_;
  if (impl.finished) return {};
  if (!impl.started) SPARCL_RETURN_IF_ERROR(impl.start(sink));
  for (std::uint64_t done = 0; impl.next_block < impl.map.block_count();) {
    SPARCL_RETURN_IF_ERROR(impl.encode_block(impl.next_block++, sink));
    done += impl.changes.shape().elements;
    if (done >= budget_elements && impl.next_block < impl.map.block_count()) return {};
  }
  impl.end(sink);
  return {};
}

void UpdateEncoder::keep_forward() { impl_->forward.keep(); }
bool UpdateEncoder::finished() const { return impl_->finished; }
const EncodeStats& UpdateEncoder::stats() const { return impl_->stats; }

}  // namespace sparcl::codec
