#include <atomic>

#include "tests/fakes/nccl/emulated_faults.hpp"
#include "tests/fakes/nccl/emulated_kernels.hpp"
// After the emulation.
#include "kernels/cuda/cast_tile.cuh"
#include "kernels/cuda/change_list.cuh"
#include "kernels/cuda/class_places.cuh"
#include "kernels/cuda/class_sample.cuh"
#include "kernels/cuda/class_sink.cuh"
#include "kernels/cuda/decode_block.cuh"
#include "kernels/cuda/diff_tile.cuh"
#include "kernels/cuda/encode_block.cuh"
#include "kernels/cuda/hash_block.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines
using kernels::DecodedBlocks;
using kernels::DeviceContents;

std::atomic<bool> refuses_blocks = false;
std::atomic<int> decoded = 0;

std::uint64_t next_seed() {
  static std::uint64_t seed = 0;
  return ++seed;
}

template <class Visit>
void with_word(std::size_t bytes, const Visit& visit) {
  switch (bytes) {
    case 1:
      return visit(std::uint8_t());
    case 2:
      return visit(std::uint16_t());
    case 4:
      return visit(std::uint32_t());
    default:
      return visit(std::uint64_t());
  }
}

DeviceChanges seen_changes(const DeviceChanges& changes) {
  return {seen(changes.positions), reachable(changes.old_values), reachable(changes.new_values),
          seen(changes.block_starts)};
}

// A workspace as the CUDA glue has it: a word for the next one, a state each, then what
// `of_changes` is for.
struct Space {
  std::uint32_t* next;
  TileState* states;
  void* of_changes;

  Space(void* workspace, std::uint64_t count) {
    auto* const words = static_cast<TileState*>(reachable(workspace));
    std::memset(words, 0, bytes(count));
    next = reinterpret_cast<std::uint32_t*>(words);
    states = words + 1;
    of_changes = states + count;
  }
  static std::size_t bytes(std::uint64_t count) { return (count + 1) * sizeof(TileState); }
};

std::size_t diff_bytes(std::uint64_t count) { return Space::bytes(tile_count(count)); }
std::size_t encode_bytes(std::uint64_t count, std::uint64_t capacity) {
  return Space::bytes(block_count(count)) + 6 * capacity;
}
std::size_t decode_bytes(std::uint64_t count, std::uint64_t capacity) {
  return Space::bytes(block_count(count)) + 8 * capacity;
}

Status check_space(std::size_t needed, std::size_t given) {
  return given >= needed ? Status() : Status(Code::kInvalidArgument, "blocks: the workspace");
}

Status diff(const void* base, const void* target, std::uint64_t count, std::size_t element_bytes,
            const DeviceChanges& changes, std::uint64_t capacity, void* workspace,
            std::size_t bytes, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_space(diff_bytes(count), bytes));
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    const Space space(workspace, tile_count(count));
    const DiffWork work{reachable(base),       reachable(target), count,     capacity,
                        seen_changes(changes), space.states,      space.next};
    with_word(element_bytes, [&](auto word) {
      emulated::launch<DiffShared>(
          static_cast<unsigned>(tile_count(count)), kThreads, next_seed(),
          [&](DiffShared& shared) { diff_tile<decltype(word)>(shared, work); });
    });
  });
}

Status encode(const DeviceChanges& changes, std::uint64_t capacity, const void* target,
              std::uint64_t count, DataType type, const DeviceContents& contents,
              DeviceChangeHashes* hashes, void* workspace, std::size_t bytes, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_space(encode_bytes(count, capacity), bytes));
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    const Space space(workspace, block_count(count));
    auto* const listed = static_cast<std::uint16_t*>(space.of_changes);
    const EncodeWork work{seen_changes(changes),
                          capacity,
                          reachable(target),
                          count,
                          info(type).is_float,
                          reachable(contents.bytes),
                          seen(contents.blocks),
                          seen(hashes),
                          seen(contents.classes_end),
                          space.states,
                          space.next,
                          listed,
                          listed + capacity,
                          listed + 2 * capacity};
    with_word(element_bytes(type), [&](auto word) {
      emulated::launch<EncodeShared>(
          static_cast<unsigned>(block_count(count)), kThreads, next_seed(),
          [&](EncodeShared& shared) { encode_block<decltype(word)>(shared, work); });
    });
  });
}

Status decode(const DeviceContents& contents, std::uint64_t contents_bytes, const void* array,
              std::uint64_t count, DataType type, const DecodedBlocks& out, void* workspace,
              std::size_t bytes, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_space(decode_bytes(count, out.capacity), bytes));
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    const Space space(workspace, block_count(count));
    auto* const marks = static_cast<std::uint32_t*>(space.of_changes);
    auto* const listed = reinterpret_cast<std::uint16_t*>(marks + out.capacity);
    *seen(out.refused) = 0;
    const DecodeWork work{reachable(contents.bytes),
                          contents_bytes,
                          seen(contents.blocks),
                          reachable(array),
                          count,
                          info(type).is_float,
                          seen_changes(out.changes),
                          out.capacity,
                          seen(out.hashes),
                          seen(out.errors),
                          seen(out.refused),
                          space.states,
                          space.next,
                          marks,
                          listed,
                          listed + out.capacity};
    with_word(element_bytes(type), [&](auto word) {
      emulated::launch<DecodeShared>(
          static_cast<unsigned>(block_count(count)), kThreads, next_seed(),
          [&](DecodeShared& shared) { decode_block<decltype(word)>(shared, work); });
    });
    for (std::uint64_t block = 0; block < block_count(count); ++block)
      decoded += seen(contents.blocks)[block].mode != kernels::kNoBlock ? 1 : 0;
    if (refuses_blocks) *seen(out.errors) = kernels::BlockError::kEnd;
  });
}

// As the CUDA glue has it: the next one and the states, counts for each class of a block, three
// words a change.
std::size_t class_states(std::uint64_t count) {
  return 1 + block_count(count) * kernels::kMaxClasses;
}
std::size_t decode_classes_bytes(std::uint64_t count, std::uint64_t capacity) {
  return class_states(count) * sizeof(TileState) +
         (block_count(count) * kernels::kMaxClasses + 3 * capacity) * 4;
}

Status sample_classes(const kernels::ClassSampleChunk* chunks, std::uint64_t count,
                      kernels::ClassSampleCounts* counts, void* stream) {
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    std::vector<kernels::ClassSampleChunk> reached(seen(chunks), seen(chunks) + count);
    for (kernels::ClassSampleChunk& chunk : reached) {
      chunk.base = reachable(chunk.base);
      chunk.target = reachable(chunk.target);
    }
    const ClassSampleWork work{reached.data(), count, seen(counts)};
    emulated::launch<ClassSampleShared>(
        static_cast<unsigned>(count), kThreads, next_seed(),
        [&](ClassSampleShared& shared) { sample_classes(shared, work); });
  });
}

// As the CUDA glue has it.
std::size_t encode_classes_bytes(std::uint64_t count, std::uint64_t capacity) {
  return Space::bytes(block_count(count)) +
         (block_count(count) * (kernels::kMaxClasses + 1) + 3 * capacity) * 4;
}

Status encode_classes(const DeviceChanges& changes, std::uint64_t capacity, const void* base,
                      std::uint64_t count, const kernels::DeviceClassSpan& span,
                      const DeviceContents& contents, DeviceChangeHashes* hashes, void* workspace,
                      std::size_t bytes, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_space(encode_classes_bytes(count, capacity), bytes));
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    const Space space(workspace, block_count(count));
    *seen(contents.classes_end) = 0;
    std::memset(seen(contents.blocks), 0xff, (block_count(count) + 1) * sizeof(BlockContent));
    auto* const of_blocks = static_cast<std::uint32_t*>(space.of_changes);
    std::uint32_t* const of_changes = of_blocks + block_count(count) * (kernels::kMaxClasses + 1);
    auto* const halves = reinterpret_cast<std::uint16_t*>(of_changes + 2 * capacity);
    const ClassEncodeWork work{seen_changes(changes),
                               capacity,
                               reachable(base),
                               count,
                               span.table,
                               span.table_bytes,
                               span.first_block,
                               span.end_block,
                               reachable(contents.bytes),
                               seen(contents.blocks),
                               seen(hashes),
                               seen(contents.classes_end),
                               space.states,
                               space.next,
                               of_blocks,
                               of_blocks + block_count(count) * kernels::kMaxClasses,
                               of_changes,
                               of_changes + capacity,
                               halves,
                               halves + capacity};
    if (super_count(work) == 0) return;
    emulated::launch<ClassRankShared>(span.end_block - span.first_block, kThreads, next_seed(),
                                      [&](ClassRankShared& shared) { rank_changes(shared, work); });
    emulated::launch<ClassSinkShared>(
        static_cast<unsigned>(super_count(work)), kThreads, next_seed(),
        [&](ClassSinkShared& shared) { encode_classes(shared, work); });
  });
}

Status decode_classes(const DeviceContents& contents, const void* array, std::uint64_t count,
                      const DecodedBlocks& out, void* workspace, std::size_t bytes, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_space(decode_classes_bytes(count, out.capacity), bytes));
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    auto* const words = static_cast<TileState*>(reachable(workspace));
    std::memset(words, 0, class_states(count) * sizeof(TileState));
    auto* const found = reinterpret_cast<std::uint32_t*>(words + class_states(count));
    std::uint32_t* const of_changes = found + block_count(count) * kernels::kMaxClasses;
    const ClassDecodeWork work{reachable(contents.bytes),
                               seen(contents.blocks),
                               reachable(array),
                               count,
                               seen_changes(out.changes),
                               seen(out.hashes),
                               seen(out.errors),
                               seen(out.refused),
                               reinterpret_cast<std::uint32_t*>(words),
                               words + 1,
                               found,
                               of_changes,
                               of_changes + out.capacity,
                               of_changes + 2 * out.capacity};
    const auto blocks = static_cast<unsigned>(block_count(count));
    emulated::launch<ClassListShared>(blocks, kThreads, next_seed(),
                                      [&](ClassListShared& shared) { read_classes(shared, work); });
    emulated::launch<ClassPlaceShared>(
        blocks, kThreads, next_seed(),
        [&](ClassPlaceShared& shared) { place_classes(shared, work); });
  });
}

Status apply(const DeviceChanges& changes, void* array, std::uint64_t count,
             std::size_t element_bytes, std::uint64_t* refused, void* stream) {
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    const ApplyWork work{seen_changes(changes), count, reachable(array), nullptr, seen(refused)};
    with_word(element_bytes, [&](auto word) {
      emulated::launch<ApplyShared>(
          static_cast<unsigned>(block_count(count)), kThreads, next_seed(),
          [&](ApplyShared& shared) { apply_changes<decltype(word)>(shared, work); });
    });
  });
}

Status hash(const void* array, std::uint64_t count, std::size_t element_bytes,
            const kernels::HashPlace& place, kernels::DeviceHash* total,
            kernels::DeviceHash* block_sums, void* stream) {
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    const HashWork work{reachable(array), count, place, seen(total), seen(block_sums)};
    with_word(element_bytes, [&](auto word) {
      emulated::launch<HashShared>(
          static_cast<unsigned>(kernels::hashed_blocks(count, place)), kThreads, next_seed(),
          [&](HashShared& shared) { hash_block<decltype(word)>(shared, work); });
    });
  });
}

template <class Small, class Word>
void cast_all(const CastWork& work) {
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(cast_tiles(work.count)), kThreads,
                                       next_seed(),
                                       [&](emulated::NoShared&) { cast_tile<Small, Word>(work); });
}

Status cast(const float* values, std::uint64_t count, DataType type, void* out, void* stream) {
  return launch_in(stream, [=] {
    const std::lock_guard lock(grid_mutex());
    const CastWork work{seen(values), count, reachable(out)};
    if (type == DataType::kFloat16) cast_all<Float16, std::uint16_t>(work);
    if (type == DataType::kBfloat16) cast_all<Bfloat16, std::uint16_t>(work);
    if (type == DataType::kFloat8e4m3) cast_all<Float8e4m3, std::uint8_t>(work);
    if (type == DataType::kFloat8e5m2) cast_all<Float8e5m2, std::uint8_t>(work);
  });
}

}  // namespace

void refuse_blocks(bool refuses) { refuses_blocks = refuses; }
int blocks_decoded() { return decoded; }

kernels::DeviceBlockKernels emulated_block_kernels() {
  return {
      diff,
      diff_bytes,
      encode,
      encode_bytes,
      decode,
      decode_bytes,
      apply,
      hash,
      cast,
      {sample_classes, encode_classes, encode_classes_bytes, decode_classes, decode_classes_bytes}};
}

}  // namespace sparcl::test
