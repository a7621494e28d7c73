#pragma once
// The float tensors of a model as one array of elements: those of float32, bfloat16 and float16, in
// the order of the tensors. Tensors of other types are left alone.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/status.hpp"
#include "src/codec/block_map.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::elastic {

class FlatWeights {
 public:
  // arrays: of the specs, in memory; they outlive this. InvalidArgument: there is no float element.
  static Result<FlatWeights> of(std::span<const codec::ArraySpec> specs,
                                std::span<std::byte* const> arrays,
                                const kernels::KernelSet& kernels);

  std::uint64_t count() const { return count_; }
  sparse::BlockRun run() const;  // of parts of all elements

  // Elements [first, first + out.size()) as float32.
  void read(std::uint64_t first, std::span<float> out) const;
  // residual[i] += this[i] - base[i], in float32.
  void add_difference(const FlatWeights& base, std::span<float> residual) const;

  // Tensors narrower than float32 get masters of float32, with their content. Sums are made in
  // them, so that small values are not lost; read() gives them.
  void keep_masters();
  // Element indices[i] += values[i]; ascending. Tensors are rounded from their masters.
  void add(std::span<const std::uint64_t> indices, std::span<const float> values);
  // All elements; of a file.
  void write(std::span<const float> values);

 private:
  struct Tensor {
    std::byte* data;
    DataType type;
    std::uint64_t first, count;
    std::vector<float> master;  // empty: there is none

    std::uint64_t end() const { return first + count; }
    bool is_exact() const { return type == DataType::kFloat32; }
  };
  explicit FlatWeights(const kernels::KernelSet& kernels) : kernels_(&kernels) {}

  void widen(const Tensor& tensor, std::uint64_t at, std::span<float> out) const;
  void add_to(Tensor& tensor, std::span<const std::uint64_t> indices,
              std::span<const float> values);

  const kernels::KernelSet* kernels_;
  std::uint64_t count_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace sparcl::elastic
