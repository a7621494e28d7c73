#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/frame_reader.hpp"
#include "src/codec/payload.hpp"
#include "src/codec/sparse_vector.hpp"
#include "src/codec/state_hash.hpp"

namespace sparcl::codec {
namespace {

struct SparseBlockEntry {
  std::uint64_t index;
  std::uint64_t first;
  std::uint32_t bytes;
  std::uint8_t mode;
};

}  // namespace

struct SparseDecoder::Impl {
  Status advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks,
                 bool& more);
  Status handle(const Staging& staging, const Section& found);
  Status add_block(const Staging& staging, const Section& found);
  Status decode(const Staging& staging, const SparseBlockEntry& entry);
  Status read_end(const std::byte* at, std::uint64_t bytes);
  Hash128 hash_of_values(std::uint64_t index) const;
  std::span<const std::byte> values() const {
    return {block.kind == DecodedKind::kWhole ? block.whole : block.values.data(),
            block.count * element_bytes(datatype)};
  }

  DataType datatype = DataType::kUint8;
  const kernels::KernelSet* kernels = nullptr;
  FrameReader frame{StreamKind::kSparse};
  Status error;
  std::vector<SparseBlockEntry> entries;
  std::uint64_t next_block = 0;
  std::uint64_t nnz = 0;
  Hash128 sums;  // of the chunk's values
  bool finished = false;
  std::optional<Section> section;  // found, and not handled yet
  Payload payload;
  DecodedBlock block;
  std::vector<std::byte> scratch;
};

Status SparseDecoder::Impl::advance(const Staging& staging, std::uint64_t available,
                                    std::uint64_t budget_blocks, bool& more) {
  more = false;
  for (std::uint64_t budget = std::max<std::uint64_t>(budget_blocks, 1);;) {
    if (!section) {
      Section found_section;
      bool found = false;
      SPARCL_RETURN_IF_ERROR(frame.next(staging, available, found_section, found));
      if (!found) return {};
      section = found_section;
    }
    if (is_block(section->tag) && budget-- == 0) {
      more = true;
      return {};
    }
    SPARCL_RETURN_IF_ERROR(handle(staging, *section));
    section.reset();
  }
}

Status SparseDecoder::Impl::handle(const Staging& staging, const Section& found) {
  if (is_block(found.tag)) return add_block(staging, found);
  const std::byte* at =
      staging.contiguous(found.first, static_cast<std::size_t>(found.bytes), scratch);
  if (found.tag == kTagSparseHeader) {
    const auto type = load_le<std::uint8_t>(at);
    if (load_le<std::uint32_t>(at) >> 8 != 0)
      return corrupt("reserved bytes of the header are not zero");
    if (type == static_cast<std::uint8_t>(datatype)) return {};
    return Status(Code::kMismatch, fmt::format("the sparse vector has data type {}, expected {}",
                                               type, info(datatype).name));
  }
  if (found.tag == kTagChunkEnd) {
    const bool matches =
        load_le<std::uint64_t>(at) == 0 && load_le<std::uint64_t>(at + 8) == digest_of(sums);
    sums = {};
    return matches ? Status() : corrupt("the values of a chunk are not those that it names");
  }
  return read_end(at, found.bytes);
}

Status SparseDecoder::Impl::add_block(const Staging& staging, const Section& found) {
  SPARCL_ASSIGN_OR_RETURN(const Gap gap, read_gap(staging, found, scratch));
  if (gap.blocks >= kSparseBlocks - next_block)
    return corrupt(fmt::format("byte {}: an index past 2^64", found.first));
  entries.push_back({next_block + gap.blocks, found.first + gap.bytes,
                     static_cast<std::uint32_t>(found.bytes - gap.bytes),
                     static_cast<std::uint8_t>(mode_of(found.tag))});
  next_block += gap.blocks + 1;
  SPARCL_RETURN_IF_ERROR(decode(staging, entries.back()));
  nnz += block.count;
  sums = sums + hash_of_values(entries.back().index);
  return {};
}

Hash128 SparseDecoder::Impl::hash_of_values(std::uint64_t index) const {
  if (block.kind == DecodedKind::kWhole)
    return placed(kernels->hash_words(values().data(), values().size()), index);
  const std::byte* news = values().data();
  return changes_hash(*kernels, datatype, block.changed(), news, news, index).new_values;
}

Status SparseDecoder::Impl::decode(const Staging& staging, const SparseBlockEntry& entry) {
  const BlockMode& mode = *find_block_mode(entry.mode);
  const std::span<const std::byte> bytes =
      payload.load(staging, entry.first, entry.bytes, mode.in_place);
  if (const char* wrong = mode.decode({datatype, kBlockElements}, bytes, *kernels, block)) {
    return corrupt(fmt::format("block {} (mode {}, {} bytes at byte {}) {}", entry.index, mode.name,
                               entry.bytes, entry.first, wrong));
  }
  return {};
}

Status SparseDecoder::Impl::read_end(const std::byte* at, std::uint64_t bytes) {
  const bool matches = bytes == kEndBytes && load_le<std::uint64_t>(at) == entries.size() &&
                       load_le<std::uint64_t>(at + 8) == nnz &&
                       load_le<std::uint64_t>(at + 16) == nnz;
  return matches ? Status()
                 : corrupt("the totals at the end are not those of the blocks before it");
}

SparseDecoder::SparseDecoder(DataType datatype, const kernels::KernelSet& kernels)
    : impl_(std::make_unique<Impl>()) {
  impl_->datatype = datatype;
  impl_->kernels = &kernels;
}

SparseDecoder::~SparseDecoder() = default;

Status SparseDecoder::advance(const Staging& staging, std::uint64_t available,
                              std::uint64_t budget_blocks, bool& more) {
  more = false;
  if (impl_->error.ok()) impl_->error = impl_->advance(staging, available, budget_blocks, more);
  return impl_->error;
}

Status SparseDecoder::finish(std::uint64_t stream_bytes) {
  if (impl_->error.ok()) impl_->error = impl_->frame.finish(stream_bytes);
  impl_->finished = impl_->error.ok();
  return impl_->error;
}

std::uint64_t SparseDecoder::nnz() const { return impl_->nnz; }

Status SparseDecoder::extract(const Staging& staging, std::uint64_t* indices, std::byte* values) {
  Impl& impl = *impl_;
  if (!impl.finished)
    return Status(Code::kInvalidUsage, "extract() before finish() has approved the stream");
  for (const SparseBlockEntry& entry : impl.entries) {
    if (const Status status = impl.decode(staging, entry); !status.ok()) {
      return Status(
          Code::kInternalError,
          "a sparse vector that had passed its check failed to decode: " + status.message());
    }
    const std::span<const std::byte> bytes = impl.values();
    for (std::size_t i = 0; i < impl.block.count; ++i) {
      *indices++ = entry.index * kBlockElements +
                   (impl.block.kind == DecodedKind::kWhole ? i : impl.block.positions.data()[i]);
    }
    std::memcpy(values, bytes.data(), bytes.size());
    values += bytes.size();
  }
  return {};
}

}  // namespace sparcl::codec
