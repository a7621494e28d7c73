#pragma once
// Top-k between the ranks' GPUs, in a stream's order. All sizes are known before anything runs:
// each rank sends room for k entries, and their number is read on the device. Sums are made in the
// ranks' tree, so that they have the bits of the host path.

#include <cstdint>

#include "collectives/top_k/top_k_all_reduce.hpp"
#include "src/comm/device/device_calls.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::collectives::top_k {

// Whether NCCL sums the values of mode union, in its own order. Otherwise the values of all ranks
// are gathered and summed in the tree.
bool union_is_reduced(const TopKCall& call);
// Whether calls between GPUs support the call, and are better than staging through host memory. The
// same on all ranks, as far as their arguments must be.
bool takes_gpus(const TopKCall& call, int ranks);

class StreamTopK {
 public:
  StreamTopK(DeviceCalls& calls, const TopKCall& call, const sparse::WireType& wire, int ranks);

  std::size_t memory_bytes() const { return end_; }  // of the device
  // Inside the device's context. residual: on the device; nullptr: none.
  Status enqueue(void* memory, void* residual);

 private:
  struct List {  // up to `capacity` entries in the memory
    std::size_t count, indices, values;
    std::uint64_t capacity;
  };

  std::size_t place(std::uint64_t bytes);
  void lay_out();
  std::size_t workspace_bytes() const;
  bool has_values() const { return call_.mode != TopKMode::kUnion; }
  std::size_t width() const { return element_bytes(wire_.accumulator); }
  void* at(std::size_t offset) const { return memory_ + offset; }
  kernels::DeviceEntries entries(const List& list, bool with_values) const;

  Status select();
  // Rounds the values of a list to the values that receivers see.
  Status round(std::size_t values, std::size_t count, std::uint64_t capacity, std::size_t rounded);
  Status exchange();
  List own_list(std::size_t begin) const;  // in a block that ranks exchange
  Status merge(std::uint64_t first, std::uint64_t end, unsigned depth, List& sum);
  Status sum_at_union(List& sum);
  Status keep_largest(List& sum);
  Status leave_sent(const List& sum);
  Status write(const List& sum);

  DeviceCalls& calls_;
  const kernels::DeviceKernelSet& kernels_;
  const TopKCall& call_;
  sparse::WireType wire_;
  std::uint64_t ranks_, most_, max_union_;  // entries of all ranks
  std::byte* memory_ = nullptr;
  std::byte* residual_ = nullptr;
  std::size_t end_ = 0;
  std::size_t block_bytes_ = 0;
  // Offsets in the memory.
  std::size_t workspace_ = 0, block_ = 0, blocks_ = 0, accumulators_ = 0, sent_ = 0, rows_ = 0;
  List merged_[2] = {}, kept_ = {};
  struct {
    std::size_t codes, exponents, exact, exact_count;
    std::uint64_t groups;
  } scaled_ = {};
};

}  // namespace sparcl::collectives::top_k
