#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/frame_writer.hpp"
#include "src/codec/sparse_vector.hpp"
#include "src/codec/state_hash.hpp"

namespace sparcl::codec {

struct SparseEncoder::Impl {
  void start(ByteSink& sink);
  void encode_block(ByteSink& sink);
  void end(ByteSink& sink);

  std::span<const std::uint64_t> indices;
  const std::byte* values;
  DataType datatype;
  FrameWriter frame;
  BlockChanges changes;
  std::size_t next = 0;          // entry
  std::uint64_t next_block = 0;  // the smallest index that the next block can have
  bool started = false;
  bool finished = false;
};

void SparseEncoder::Impl::start(ByteSink& sink) {
  const std::array<std::byte, kSparseHeaderBytes - kCrcBytes> header{
      static_cast<std::byte>(datatype)};
  frame.write_prefix(StreamKind::kSparse, sink);
  frame.write_checked_section(kTagSparseHeader, header, sink);
  started = true;
}

void SparseEncoder::Impl::encode_block(ByteSink& sink) {
  const std::uint64_t index = indices[next] / kBlockElements;
  const auto begin = indices.begin() + static_cast<std::ptrdiff_t>(next);
  const auto block_end = std::min<std::ptrdiff_t>(kBlockElements, indices.end() - begin);
  const auto end = std::upper_bound(
      begin, begin + block_end, index,
      [](std::uint64_t block, std::uint64_t entry) { return block < entry / kBlockElements; });
  const auto count = static_cast<std::size_t>(end - begin);
  const std::size_t width = element_bytes(datatype);

  const Piece piece{0, next, static_cast<std::uint32_t>(count), 0};
  const std::array<const std::byte*, 1> arrays{values};
  changes.target = {{datatype, kBlockElements}, {&piece, 1}, arrays};
  changes.make_room();
  for (std::size_t i = 0; i < count; ++i)
    changes.positions.data()[i] = static_cast<std::uint16_t>(begin[static_cast<std::ptrdiff_t>(i)]);
  std::memcpy(changes.new_values.data(), values + next * width, count * width);
  changes.set_changes(count);

  const ModeChoice choice = choose_mode(changes);
  choice.mode->encode(changes,
                      frame.begin_block(choice.mode->id, index - next_block, choice.bytes, sink));
  const std::byte* news = changes.new_values.data();
  const Positions positions(changes.positions.data(), count);
  frame.end_block(
      {}, changes_hash(*changes.kernels, datatype, positions, news, news, index).new_values, sink);
  if (frame.chunk_is_full()) frame.end_chunk(sink);
  next += count;
  next_block = index + 1;
}

void SparseEncoder::Impl::end(ByteSink& sink) {
  frame.end_chunk(sink);
  ByteWriter content;
  content.write(frame.blocks());
  content.write(std::uint64_t{indices.size()});
  content.write(std::uint64_t{indices.size()});
  frame.write_checked_section(kTagEnd, content.bytes(), sink);
  finished = true;
}

SparseEncoder::SparseEncoder(std::span<const std::uint64_t> indices, const std::byte* values,
                             DataType datatype, const kernels::KernelSet& kernels)
    : impl_(std::make_unique<Impl>()) {
  impl_->indices = indices;
  impl_->values = values;
  impl_->datatype = datatype;
  impl_->changes.kernels = &kernels;
}

SparseEncoder::~SparseEncoder() = default;

Status SparseEncoder::step(std::uint64_t budget_entries, ByteSink& sink) {
  Impl& impl = *impl_;
  if (impl.finished) return {};
  if (!impl.started) impl.start(sink);
  for (const std::size_t first = impl.next; impl.next < impl.indices.size();) {
    impl.encode_block(sink);
    if (impl.next - first >= budget_entries && impl.next < impl.indices.size()) return {};
  }
  impl.end(sink);
  return {};
}

bool SparseEncoder::finished() const { return impl_->finished; }

}  // namespace sparcl::codec
