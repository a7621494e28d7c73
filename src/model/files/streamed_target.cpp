#include "src/model/files/streamed_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "src/codec/state_hash.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kLoadBlocks = 4;                        // 512 KiB of 16 bits
constexpr std::uint64_t kBufferBytes = std::uint64_t{2} << 20;  // at first: in the caches

std::vector<std::uint64_t> offsets_of(const Checkpoint& base) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < base.schema().size(); ++i) {
    offsets.push_back(bytes);
    bytes += base.byte_count(i);
  }
  return offsets;
}

}  // namespace

Result<std::unique_ptr<StreamedTarget>> StreamedTarget::create(const Checkpoint& base,
                                                               const Delta& delta,
                                                               const DeltaSummary& summary) {
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, chosen_kernels());
  std::unique_ptr<StreamedTarget> made(new StreamedTarget(base, delta, summary, *kernels));
  SPARCL_RETURN_IF_ERROR(made->make_room(kBufferBytes));
  return made;
}

StreamedTarget::StreamedTarget(const Checkpoint& base, const Delta& delta,
                               const DeltaSummary& summary, const kernels::KernelSet& kernels)
    : base_(base),
      delta_(delta),
      summary_(summary),
      kernels_(kernels),
      map_(make_block_map(base.schema())),
      offsets_(offsets_of(base)),
      held_(offsets_.size()),
      read_(offsets_.size()),
      blocks_(map_, held_, kernels),
      decoder_(map_, held_, codec::Verify::kTouched, schema_hash(base.schema()), kernels),
      base_hash_(schema_hash(base.schema())),
      target_hash_(base_hash_) {
  decoder_.set_elsewhere(blocks_);
  decoder_.set_array_name(
      [this](std::uint32_t tensor) { return in_quotes(base_.schema()[tensor].name); });
}

// For the bytes up to `end`: those that are written make room.
Status StreamedTarget::make_room(std::uint64_t end) {
  if (end - begin_ <= buffer_bytes_) return {};
  const std::uint64_t kept = loaded_bytes_ - written_bytes_;
  const std::byte* const from = buffer_ ? buffer_->data() + (written_bytes_ - begin_) : nullptr;
  if (end - written_bytes_ > buffer_bytes_) {
    const std::uint64_t bytes = std::max(2 * buffer_bytes_, end - written_bytes_);
    SPARCL_ASSIGN_OR_RETURN(ZeroMemory larger, ZeroMemory::allocate(bytes, "tensors"));
    if (kept > 0) std::memcpy(larger.data(), from, kept);
    buffer_.emplace(std::move(larger));
    buffer_bytes_ = bytes;
  } else if (kept > 0) {
    std::memmove(buffer_->data(), from, kept);
  }
  begin_ = written_bytes_;
  place_tensors();
  return {};
}

// Addresses outside the buffer are not used.
void StreamedTarget::place_tensors() {
  const auto buffer = reinterpret_cast<std::uintptr_t>(buffer_->data());
  for (std::size_t i = 0; i < held_.size(); ++i)
    held_[i] = reinterpret_cast<std::byte*>(buffer + offsets_[i] - begin_);
  std::ranges::copy(held_, read_.begin());
  blocks_.move_to(held_);
}

// Reads blocks of the base.
Status StreamedTarget::load(std::uint64_t end) {
  end = std::min(end, map_.block_count());
  for (std::uint64_t block = loaded_; block < end; ++block) {
    const std::size_t width = element_bytes(map_.block(block, pieces_));
    for (const codec::Piece& piece : pieces_) {
      const std::uint64_t at = piece.first * width, bytes = piece.count * width;
      SPARCL_RETURN_IF_ERROR(make_room(offsets_[piece.array] + at + bytes));
      SPARCL_RETURN_IF_ERROR(base_.read(piece.array, at, {held_[piece.array] + at, bytes}));
      loaded_bytes_ = offsets_[piece.array] + at + bytes;
    }
  }
  base_hash_ = base_hash_ + codec::blocks_hash(map_, arrays(), loaded_, end, kernels_);
  loaded_ = end;
  blocks_.set_end(end);
  return {};
}

// Changes the blocks that were read, up to one whose neighbours are needed.
Status StreamedTarget::decode() {
  bool more = true;
  do {
    SPARCL_RETURN_IF_ERROR(decoder_.advance(delta_.staging, delta_.bytes, kLoadBlocks, more));
  } while (more && !blocks_.is_waiting());
  if (blocks_.waiting_end() > map_.block_count())
    return Status(Code::kCorrupt,
                  fmt::format("{}: it has more blocks than the checkpoint", delta_.path));
  const std::uint64_t end = std::min(loaded_, blocks_.waiting_begin());
  target_hash_ = target_hash_ + codec::blocks_hash(map_, arrays(), final_, end, kernels_);
  final_ = end;
  return {};
}

Status StreamedTarget::load_and_decode() {
  SPARCL_RETURN_IF_ERROR(load(std::max(loaded_ + kLoadBlocks, blocks_.waiting_end())));
  return decode();
}

Status StreamedTarget::need(std::size_t tensor, std::uint64_t end) {
  const std::size_t width = element_bytes(base_.schema()[tensor].datatype);
  if (end < width) return {};
  const std::uint64_t last =
      map_.place_of(static_cast<std::uint32_t>(tensor), (end - 1) / width).block;
  while (final_ <= last) SPARCL_RETURN_IF_ERROR(load_and_decode());
  return {};
}

void StreamedTarget::release(std::size_t tensor, std::uint64_t end) {
  written_bytes_ = offsets_[tensor] + end;
}

Status StreamedTarget::finish() {
  do {
    SPARCL_RETURN_IF_ERROR(load_and_decode());
  } while (final_ < map_.block_count());
  SPARCL_RETURN_IF_ERROR(decoder_.finish(delta_.bytes));
  SPARCL_RETURN_IF_ERROR(base_.check_unchanged());
  if (base_hash_ != *summary_.whole_base_hash())
    return Status(Code::kWrongBase,
                  fmt::format("{}: it is not the base of {}", base_.path(), delta_.path));
  if (target_hash_ != *summary_.target_hash)
    return Status(Code::kCorrupt,
                  fmt::format("{}: it leads to another state than it names", delta_.path));
  return {};
}

}  // namespace sparcl::model
