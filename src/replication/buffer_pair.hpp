#pragma once
// Two sets of a replica's arrays: the front one is read, and holds a version; the next one is made
// in the back.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/block_map.hpp"
#include "src/replication/rollback.hpp"

namespace sparcl::replication {

class BufferPair {
 public:
  // first: the front, the caller's; the back is made, as large. OutOfMemory says how much that
  // takes.
  static Result<std::unique_ptr<BufferPair>> create(const codec::BlockMap& map,
                                                    std::span<std::byte* const> first);

  std::span<std::byte* const> front() const { return sets_[front_]; }
  std::span<std::byte* const> back() const { return sets_[1 - front_]; }

  // The back becomes what the front is. last: the rollback to what the back holds, if that is
  // known; else all bytes are copied.
  void catch_up(const ReplicatedState& state, const Rollback& last);
  void exchange() { front_ = 1 - front_; }
  // The content of the back is unknown.
  void doubt() { is_known_ = false; }

 private:
  BufferPair(const codec::BlockMap& map, std::span<std::byte* const> first);

  std::vector<std::size_t> bytes_;  // of each array
  std::vector<std::unique_ptr<std::byte[]>> own_;
  std::array<std::vector<std::byte*>, 2> sets_;
  std::size_t front_ = 0;
  bool is_known_ = false;  // what the back holds: what the front did before the last exchange
};

}  // namespace sparcl::replication
