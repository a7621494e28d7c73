#pragma once
// What `subscribe` says of the versions that it has taken.

#include <atomic>
#include <cstdint>
#include <vector>

#include "src/replication/subscriber.hpp"
#include "tools/sparcl/metrics.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::tool {

// Counts of this process, for other threads.
struct SwapCounts {
  std::atomic<std::uint64_t> swaps{0}, changed{0}, bytes{0};
  std::atomic<double> pause_s{0}, last_pause_s{0};
  std::atomic<std::uint64_t> file_version{0}, failed_writes{0};

  void add(const replication::Subscriber::Swap& swap) {
    ++swaps;
    changed += swap.changed;
    bytes += swap.stream_bytes;
    pause_s = pause_s + swap.pause_s;
    last_pause_s = swap.pause_s;
  }
};

// The versions that have come since the last write of the file.
struct Arrived {
  std::uint64_t version = 0;  // 0: nothing
  Hash128 hash;
  std::uint64_t changed = 0;
  std::uint64_t bytes = 0;
  int updates = 0;
  double pause_s = 0;
  bool by_anchor = false;
  bool by_repair = false;
  std::uint64_t damaged_blocks = 0;
  bool from_store = false;   // the last of them
  bool is_of_files = false;  // beside the shards: the version was written before
  double since = 0;          // the first of them has come

  void add(const replication::Subscriber::Swap& swap) {
    version = swap.version;
    hash = swap.hash;
    changed += swap.changed;
    bytes += swap.stream_bytes;
    updates += swap.updates;
    pause_s += swap.pause_s;
    by_anchor = by_anchor || swap.by_anchor;
    from_store = swap.from_store;
    by_repair = by_repair || swap.by_repair;
    damaged_blocks += swap.damaged_blocks;
  }
};

// failed_notices: of targets of --notify.
std::vector<Metric> subscriber_metrics(const replication::Subscriber& subscriber,
                                       const SwapCounts& counts, std::uint64_t failed_notices);

void print_line(const Arrived& arrived, const ModelMemory& memory, bool as_json);

}  // namespace sparcl::tool
