#pragma once
// Arguments of launches: plain structs of device pointers that host and device code share. This
// header needs no CUDA.

#include <cstddef>
#include <cstdint>

#include "kernels/device_blocks.hpp"
#include "kernels/mask_access.hpp"

namespace sparcl::kernels::cuda {

constexpr unsigned kThreads = 256;  // of every block
// Elements of a tile, which one block takes at a time. Heuristic: its marks take 2 KiB of shared
// memory. The parts of two arrays that it has read (64 KiB of bf16) are likely still in L2 when the
// taken values are read again. A quarter of the codec's block.
constexpr unsigned kTileElements = 16'384;
constexpr std::uint64_t kBlockElements = 65'536;  // of the codec

constexpr std::uint64_t tile_count(std::uint64_t elements) {
  return (elements + kTileElements - 1) / kTileElements;
}
constexpr std::uint64_t block_count(std::uint64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}
// Grids have fewer than 2^31 blocks.
constexpr std::uint64_t kMaxElements = std::uint64_t{0x7fffffff} * kTileElements;

using kernels::aligned_content;
using kernels::BlockContent;
using kernels::BlockError;
using kernels::DeviceChangeHashes;
using kernels::DeviceChanges;

// The state that a tile publishes, in one word that is written at once: a sum times 4, and what the
// sum covers (ordered_compaction.cuh).
using TileState = std::uint64_t;

struct DiffWork {
  const void* base;
  const void* target;
  std::uint64_t count;
  std::uint64_t capacity;  // of changes
  DeviceChanges changes;
  TileState* states;         // a word a tile, zeros
  std::uint32_t* next_tile;  // zero
};

struct ApplyWork {
  DeviceChanges changes;
  std::uint64_t count;  // of the array's elements
  void* array;
  DeviceChangeHashes* hashes;  // of block_count(), by the old values of the list, which are
                               // checked; nullptr: none wanted
  std::uint64_t* refused;  // changes whose old value is not the array's: of all blocks; where it is
                           // not 0 nothing is written
};

struct EncodeWork {
  DeviceChanges changes;
  std::uint64_t capacity;  // of changes
  const void* target;
  std::uint64_t count;  // elements of the array
  bool is_float;
  void* contents;
  BlockContent*
      blocks;  // of block_count(), and one more: its offset is where the last content ends
  DeviceChangeHashes* hashes;  // of a dense block: of all its elements
  // End of the contents of blocks that are already coded in classes and listed in `blocks`;
  // nullptr: there are none.
  const std::uint64_t* classes_end;
  // The workspace.
  TileState* states;          // a word a block, zeros
  std::uint32_t* next_block;  // zero
  std::uint16_t* listed;      // of capacity: numbers of a block's changes of more than one step
  std::uint16_t* places;  // of capacity, on two levels: which changes are behind long gaps, then
                          // the list of short gaps
  std::uint16_t* longs;   // of capacity: the list of long gaps
};

struct DecodeWork {
  const void* contents;
  std::uint64_t contents_bytes;
  const BlockContent* blocks;  // of block_count(); neither it nor the contents are trusted
  const void* array;
  std::uint64_t count;  // elements of the array
  bool is_float;
  DeviceChanges changes;
  std::uint64_t capacity;      // of changes
  DeviceChangeHashes* hashes;  // of a dense block: of all its elements
  BlockError* errors;          // of block_count()
  std::uint64_t* refused;      // blocks with an error: added to the number that is there
  // The workspace.
  TileState* states;          // a word a block, zeros
  std::uint32_t* next_block;  // zero
  std::uint32_t* marks;       // of capacity: the ones of a unary part
  std::uint16_t* listed;      // of capacity
  std::uint16_t*
      gaps;  // of capacity, on two levels: the list of short gaps, then that of long ones
};

// Gather reads the array and writes packed values; scatter does the inverse.
struct MaskWork {
  MaskPlaces places;  // not empty
  void* array;
  void* packed;
};
// The number of thread blocks: parts of positions, or tiles of packed values.
constexpr std::uint64_t mask_blocks(const MaskPlaces& places) {
  return places.run_elements == 0 ? places.part_count : tile_count(places.count);
}

// Element types that top-k takes: all types with accumulators.
enum class TopKType : std::uint8_t {
  kFloat32,
  kFloat16,
  kBfloat16,
  kFloat8e4m3,
  kFloat8e5m2,
  kFloat64,
  kInt32,
  kUint32,
  kInt64,
  kUint64
};

constexpr std::uint64_t kSamples =
    16'384;  // keys from which a threshold is guessed: its count is accurate to a few percent

// Elements of a tile of the cut. There are few candidates, and a thread has its keys in registers.
constexpr unsigned kCutItems = 8, kCutTile = kCutItems * kThreads;
constexpr std::uint64_t cut_tiles(std::uint64_t elements) {
  return (elements + kCutTile - 1) / kCutTile;
}
// Tile numbers have 32 bits, including the numbers given to blocks after the last tile.
constexpr std::uint64_t kMaxTopKElements = std::uint64_t{0x7fffffff} * kCutTile;
// If all elements are examined, there is a state for each tile of both kinds.
constexpr std::uint64_t top_k_states(std::uint64_t elements) {
  return tile_count(elements) + 2 * cut_tiles(elements);
}

struct TopKState {
  std::uint64_t least;       // the guess: candidates have at least this magnitude key
  std::uint64_t candidates;  // their number, even if there is room for fewer
  std::uint64_t key;         // the digits found of the smallest key taken
  std::uint64_t rest;        // the number of elements to take that have these digits
  std::uint32_t
      is_whole;  // the guess was wrong: all elements are examined instead of the candidates
  std::uint32_t next_tile[2];
  std::uint64_t digits[256];
};

struct TopKWork {
  const void* values;
  void* residual;  // accumulators; nullptr: no error feedback
  std::uint64_t count;
  std::uint64_t k;
  bool clear_sent;         // residual[i] = 0 for taken elements
  std::uint64_t* indices;  // room for k
  void* taken;             // accumulators, room for k; nullptr: none wanted
  std::uint64_t* found;    // min(k, elements that are not 0)
  // The workspace.
  TopKState* state;
  std::uint64_t* samples;  // kSamples keys
  TileState* states;  // top_k_states() zeros: of candidates, of what is above the least one taken,
                      // of those like it
  std::uint64_t capacity;  // of candidates
  std::uint64_t* candidate_indices;
  std::uint64_t* candidate_keys;
};

}  // namespace sparcl::kernels::cuda
