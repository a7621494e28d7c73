#pragma once
// Arguments of launches on sparse entries.

#include "kernels/cuda/device_work.hpp"
#include "kernels/device_entries.hpp"

namespace sparcl::kernels::cuda {

// Entries of both lists that a thread merges at a time. Heuristic: an odd number, so that threads
// that read their stretches of shared memory start in different banks. 9 entries take 27 KiB with
// values of 4 bytes, 36 KiB with 8.
constexpr unsigned kMergeItems = 9;
constexpr unsigned kMergeTile = kThreads * kMergeItems;

// At least one, which writes the count if the lists are empty.
constexpr std::uint64_t merge_tiles(std::uint64_t entries) {
  return entries == 0 ? 1 : (entries + kMergeTile - 1) / kMergeTile;
}

// The number of a's and of b's entries before a tile.
struct MergeSplit {
  std::uint64_t a, b;
};

struct MergeWork {
  DeviceEntries a, b, out;
  std::uint64_t capacity_a, capacity_b;
  // The workspace: of merge_tiles(capacity_a + capacity_b).
  MergeSplit* splits;  // one more
  TileState* states;
  std::uint32_t* next_tile;
};

// Entries that a thread, and a block, scatters or gathers. Heuristic: the loads of a thread that
// are in flight at once.
constexpr unsigned kEntryItems = 4;
constexpr unsigned kEntryTile = kThreads * kEntryItems;
constexpr std::uint64_t entry_tiles(std::uint64_t entries) {
  return (entries + kEntryTile - 1) / kEntryTile;
}

struct EntryWork {
  DeviceEntries entries;
  std::uint64_t capacity;
  void* array;
  std::uint32_t divisor;  // for scattered values
};

}  // namespace sparcl::kernels::cuda
