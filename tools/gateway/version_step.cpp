#include "tools/gateway/version_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/staging_sink.hpp"
#include "src/model/exchange/sparse_change.hpp"
#include "src/store/update_coding.hpp"
#include "src/trust/sha256.hpp"
#include "tools/sparcl/open_chain.hpp"

namespace sparcl::gateway {
namespace {

constexpr std::uint64_t kCompared = std::uint64_t{1} << 22;  // elements between two looks at sizes

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <class Position>
void put_positions(std::span<const std::uint64_t> indices, std::string& out) {
  out.resize(indices.size() * sizeof(Position));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto position = static_cast<Position>(indices[i]);  // little endian, as this machine is
    std::memcpy(out.data() + i * sizeof position, &position, sizeof position);
  }
}

// Makes the chunks of a tensor's changes as they are found.
class PlainChunks {
 public:
  PlainChunks(ChunkList& list, std::uint32_t tensor, std::uint64_t elements, std::size_t width,
              std::uint64_t chunk_bytes)
      : list_(list),
        tensor_(tensor),
        position_bytes_(position_bytes(elements)),
        width_(width),
        most_(std::max<std::uint64_t>(1, chunk_bytes / (position_bytes_ + width))) {}

  // Takes whole chunks out of the change, or all of it.
  Status take(model::TensorChange& change, bool is_last) {
    std::size_t done = 0;
    while (change.indices.size() - done >= most_ || (is_last && done < change.indices.size())) {
      const std::size_t count = std::min<std::size_t>(most_, change.indices.size() - done);
      SPARCL_RETURN_IF_ERROR(add(change, done, count));
      done += count;
    }
    change.indices.erase(change.indices.begin(),
                         change.indices.begin() + static_cast<std::ptrdiff_t>(done));
    change.values.erase(change.values.begin(),
                        change.values.begin() + static_cast<std::ptrdiff_t>(done * width_));
    return {};
  }

 private:
  Status add(const model::TensorChange& change, std::size_t first, std::size_t count) {
    v1::Chunk& chunk = list_.chunks.emplace_back();
    chunk.set_tensor(tensor_);
    const auto indices = std::span(change.indices).subspan(first, count);
    if (position_bytes_ == 4)
      put_positions<std::uint32_t>(indices, *chunk.mutable_positions());
    else
      put_positions<std::uint64_t>(indices, *chunk.mutable_positions());
    chunk.set_values(change.values.data() + first * width_, count * width_);
    list_.bytes += chunk.positions().size() + chunk.values().size();
    return seal(chunk);
  }

  ChunkList& list_;
  std::uint32_t tensor_;
  std::size_t position_bytes_, width_;
  std::uint64_t most_;  // changes of a chunk
};

// False: it is longer than all tensors.
Result<bool> find_changes(const tool::ModelMemory& memory, std::span<std::byte* const> before,
                          std::uint64_t chunk_bytes, VersionStep& step) {
  const model::Schema& schema = memory.schema();
  for (std::uint32_t i = 0; i < schema.size(); ++i) {
    const std::size_t width = element_bytes(schema[i].datatype);
    const std::uint64_t elements = memory.view().map->arrays()[i].count;
    PlainChunks chunks(step.plain, i, elements, width, chunk_bytes);
    model::TensorChange change{schema[i].name, schema[i].datatype, {}, {}, {}};
    for (std::uint64_t first = 0; first < elements; first += kCompared) {
      const std::uint64_t count = std::min(kCompared, elements - first);
      const std::size_t known = change.indices.size();
      model::compare_values(first, count, before[i] + first * width,
                            memory.tensors()[i] + first * width, *memory.view().kernels, change);
      step.changed += change.indices.size() - known;
      SPARCL_RETURN_IF_ERROR(chunks.take(change, first + count == elements));
      if (step.plain.bytes > memory.byte_count()) return false;
    }
  }
  return true;
}

Status code_step(const tool::ModelMemory& memory, std::span<std::byte* const> before,
                 std::uint64_t chunk_bytes, VersionStep& step) {
  const store::ChainState state = tool::chain_state(memory);
  codec::UpdateEncoder encoder(*state.map, store::readable(before), store::readable(state.arrays),
                               store::encode_options(state, step.base, step.target.version),
                               *state.kernels);
  Staging coded;
  codec::StagingSink sink(coded);
  while (!encoder.finished()) SPARCL_RETURN_IF_ERROR(encoder.step(kCompared, sink));
  const Hash128 hash = encoder.stats().target_hash;
  if (hash != step.target.hash)
    return Status(
        Code::kCorrupt,
        fmt::format("the memory of this process holds the state {}, and version {} is {}: "
                    "it is damaged. Start the gateway anew",
                    to_hex(hash), step.target.version, to_hex(step.target.hash)));
  const std::uint64_t byte_count = sink.written_bytes();
  for (std::uint64_t first = 0; first < byte_count; first += chunk_bytes) {
    v1::Chunk& chunk = step.coded.chunks.emplace_back();
    chunk.set_first(first);
    std::string& bytes = *chunk.mutable_values();
    bytes.resize(std::min(chunk_bytes, byte_count - first));
    coded.copy(first, bytes.size(), reinterpret_cast<std::byte*>(bytes.data()));
    SPARCL_RETURN_IF_ERROR(seal(chunk));
  }
  step.coded.bytes = byte_count;
  return {};
}

}  // namespace

std::size_t position_bytes(std::uint64_t elements) {
  return elements <= std::uint64_t{1} << 32 ? 4 : 8;
}

Status seal(v1::Chunk& chunk) {
  std::array<std::byte, 20> head{};
  const std::uint32_t tensor = chunk.tensor();
  const std::uint64_t first = chunk.first(), positions = chunk.positions().size();
  std::memcpy(head.data(), &tensor, sizeof tensor);
  std::memcpy(head.data() + 4, &first, sizeof first);
  std::memcpy(head.data() + 12, &positions, sizeof positions);
  trust::Sha256 hash;
  hash.update(head);
  hash.update(bytes_of(chunk.positions()));
  hash.update(bytes_of(chunk.values()));
  SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, hash.finish());
  chunk.set_digest(digest.data(), digest.size());
  return {};
}

Result<VersionStepRef> make_step(const tool::ModelMemory& memory,
                                 std::span<std::byte* const> before, const StepEnds& ends,
                                 std::uint64_t chunk_bytes) {
  auto step = std::make_shared<VersionStep>();
  step->base = ends.base;
  step->target = ends.target;
  SPARCL_ASSIGN_OR_RETURN(const bool is_short, find_changes(memory, before, chunk_bytes, *step));
  if (!is_short) return VersionStepRef();
  SPARCL_RETURN_IF_ERROR(code_step(memory, before, chunk_bytes, *step));
  return VersionStepRef(std::move(step));
}

void write_step(const VersionStep& step, const model::Schema& schema,
                std::span<std::byte* const> arrays) {
  for (const v1::Chunk& chunk : step.plain.chunks) {
    const std::size_t width = element_bytes(schema[chunk.tensor()].datatype);
    const std::size_t count = chunk.values().size() / width;
    const std::size_t each = count == 0 ? 0 : chunk.positions().size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t position = 0;
      std::memcpy(&position, chunk.positions().data() + i * each, each);
      std::memcpy(arrays[chunk.tensor()] + position * width, chunk.values().data() + i * width,
                  width);
    }
  }
}

}  // namespace sparcl::gateway
