#pragma once
// A sparse vector as a stream of bytes: the same frame and blocks as an update, positions in a
// 64-bit index space, values as they are.

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/base/staging.hpp"
#include "src/base/status.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

class SparseEncoder {
 public:
  // indices must ascend strictly: the caller has checked. values: nnz elements of `datatype`.
  SparseEncoder(std::span<const std::uint64_t> indices, const std::byte* values, DataType datatype,
                const kernels::KernelSet& kernels);
  ~SparseEncoder();
  // Encodes about `budget_entries` more entries (at least a block's), writing to `sink`. The last
  // step ends the stream.
  Status step(std::uint64_t budget_entries, ByteSink& sink);
  bool finished() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class SparseDecoder {
 public:
  SparseDecoder(DataType datatype, const kernels::KernelSet& kernels);
  ~SparseDecoder();
  // As UpdateDecoder::advance and finish.
  Status advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks,
                 bool& more);
  Status finish(std::uint64_t stream_bytes);
  std::uint64_t nnz() const;  // after finish()
  // After finish(): writes nnz() indices (ascending) and values.
  Status extract(const Staging& staging, std::uint64_t* indices, std::byte* values);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparcl::codec
