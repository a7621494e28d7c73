#include "src/model/files/streamed_target.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "src/codec/state_hash.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kLoadBlocks = 32;  // 4 MiB of 16 bits: stays in the caches
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kReleaseBytes = 4 * kHugePage;

// With room to begin at a huge page, where also an empty tensor has an address.
std::uint64_t bytes_of_tensors(const Checkpoint& base) {
  std::uint64_t bytes = 2 * kHugePage;
  for (std::size_t i = 0; i < base.schema().size(); ++i) bytes += base.byte_count(i);
  return bytes;
}

std::byte* at_huge_page(std::byte* memory) {
  const std::uint64_t past = reinterpret_cast<std::uintptr_t>(memory) % kHugePage;
  return memory + (past == 0 ? 0 : kHugePage - past);
}

std::vector<std::byte*> places_in(std::byte* memory, const Checkpoint& base) {
  std::vector<std::byte*> places;
  for (std::size_t i = 0; i < base.schema().size(); ++i) {
    places.push_back(memory);
    memory += base.byte_count(i);
  }
  return places;
}

}  // namespace

Result<std::unique_ptr<StreamedTarget>> StreamedTarget::create(const Checkpoint& base,
                                                               const Delta& delta,
                                                               const DeltaSummary& summary) {
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, chosen_kernels());
  SPARCL_ASSIGN_OR_RETURN(ZeroMemory memory,
                          ZeroMemory::reserve(bytes_of_tensors(base), "the tensors"));
  (void)::madvise(memory.data(), bytes_of_tensors(base), MADV_HUGEPAGE);
  return std::unique_ptr<StreamedTarget>(
      new StreamedTarget(base, delta, summary, *kernels, std::move(memory)));
}

StreamedTarget::StreamedTarget(const Checkpoint& base, const Delta& delta,
                               const DeltaSummary& summary, const kernels::KernelSet& kernels,
                               ZeroMemory memory)
    : base_(base),
      delta_(delta),
      summary_(summary),
      kernels_(kernels),
      map_(make_block_map(base.schema())),
      memory_(std::move(memory)),
      begin_(at_huge_page(memory_.data())),
      held_(places_in(begin_, base)),
      read_(held_.begin(), held_.end()),
      blocks_(map_, held_, kernels),
      decoder_(map_, held_, codec::Verify::kOff, schema_hash(base.schema()), kernels),
      base_hash_(schema_hash(base.schema())),
      target_hash_(base_hash_) {
  decoder_.set_elsewhere(blocks_);
  decoder_.set_array_name(
      [this](std::uint32_t tensor) { return in_quotes(base_.schema()[tensor].name); });
}

// Reads blocks of the base.
Status StreamedTarget::load(std::uint64_t end) {
  end = std::min(end, map_.block_count());
  for (std::uint64_t block = loaded_; block < end; ++block) {
    const std::size_t width = element_bytes(map_.block(block, pieces_));
    for (const codec::Piece& piece : pieces_) {
      const std::uint64_t at = piece.first * width;
      SPARCL_RETURN_IF_ERROR(
          base_.read(piece.array, at, {held_[piece.array] + at, piece.count * width}));
    }
  }
  const codec::ArrayInput arrays{read_, nullptr};
  base_hash_ = base_hash_ + codec::blocks_hash(map_, arrays, loaded_, end, kernels_);
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
  const std::uint64_t end = blocks_.waiting_begin();
  const codec::ArrayInput arrays{read_, nullptr};
  target_hash_ = target_hash_ + codec::blocks_hash(map_, arrays, final_, end, kernels_);
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

// Whole huge pages.
void StreamedTarget::release(std::size_t tensor, std::uint64_t end) {
  const std::uint64_t until = static_cast<std::uint64_t>(held_[tensor] - begin_) + end;
  const std::uint64_t whole = until / kHugePage * kHugePage;
  if (whole < released_ + kReleaseBytes) return;
  (void)::madvise(begin_ + released_, whole - released_, MADV_DONTNEED);
  released_ = whole;
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
