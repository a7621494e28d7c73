#include "src/elastic/flat_weights.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/float_environment.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::elastic {
namespace {

constexpr std::size_t kAtOnce = std::size_t{64} << 10;  // elements; heuristic: they fit the caches

bool is_summed(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kBfloat16 || type == DataType::kFloat16;
}

}  // namespace

Result<FlatWeights> FlatWeights::of(std::span<const codec::ArraySpec> specs,
                                    std::span<std::byte* const> arrays,
                                    const kernels::KernelSet& kernels) {
  FlatWeights made(kernels);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!is_summed(specs[i].datatype) || specs[i].count == 0) continue;
    made.tensors_.push_back({arrays[i], specs[i].datatype, made.count_, specs[i].count, {}});
    made.count_ += specs[i].count;
  }
  if (made.count_ > 0) return made;
  return Status(Code::kInvalidArgument,
                "the model has no element of type float32, bfloat16 or float16: there is nothing "
                "to aggregate");
}

sparse::BlockRun FlatWeights::run() const {
  sparse::BlockRun run;
  run.blocks = (count_ + run.block_elements() - 1) / run.block_elements();
  return run;
}

void FlatWeights::widen(const Tensor& tensor, std::uint64_t at, std::span<float> out) const {
  if (!tensor.master.empty()) {
    std::copy_n(tensor.master.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
    return;
  }
  sparse::widen_from_wire(*kernels_, {DataType::kFloat32, tensor.type},
                          tensor.data + at * element_bytes(tensor.type), out.size(),
                          reinterpret_cast<std::byte*>(out.data()));
}

void FlatWeights::read(std::uint64_t first, std::span<float> out) const {
  for (const Tensor& tensor : tensors_) {
    if (out.empty()) return;
    if (first >= tensor.end()) continue;
    const std::size_t count = std::min<std::uint64_t>(out.size(), tensor.end() - first);
    widen(tensor, first - tensor.first, out.first(count));
    out = out.subspan(count);
    first += count;
  }
}

void FlatWeights::add_difference(const FlatWeights& base, std::span<float> residual) const {
  const FloatEnvironment ieee;
  std::vector<float> own(kAtOnce), old(kAtOnce);
  for (std::uint64_t first = 0; first < count_; first += kAtOnce) {
    const std::size_t count = std::min<std::uint64_t>(kAtOnce, count_ - first);
    read(first, std::span(own).first(count));
    base.read(first, std::span(old).first(count));
    float* const into = residual.data() + first;
    for (std::size_t i = 0; i < count; ++i) into[i] += own[i] - old[i];
  }
}

void FlatWeights::keep_masters() {
  for (Tensor& tensor : tensors_) {
    if (tensor.is_exact() || !tensor.master.empty()) continue;
    std::vector<float> master(tensor.count);
    widen(tensor, 0, master);
    tensor.master = std::move(master);
  }
}

void FlatWeights::add_to(Tensor& tensor, std::span<const std::uint64_t> indices,
                         std::span<const float> values) {
  std::vector<float> sums(indices.size());
  std::byte* const data = tensor.data;
  const bool is_exact = tensor.is_exact();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint64_t at = indices[i] - tensor.first;
    if (is_exact) {
      std::memcpy(&sums[i], data + at * sizeof(float), sizeof(float));
    } else if (tensor.master.empty()) {
      widen(tensor, at, std::span(&sums[i], 1));
    } else {
      sums[i] = tensor.master[at];
    }
    sums[i] += values[i];
    if (is_exact) std::memcpy(data + at * sizeof(float), &sums[i], sizeof(float));
    if (!tensor.master.empty()) tensor.master[at] = sums[i];
  }
  if (is_exact) return;
  const std::size_t width = element_bytes(tensor.type);
  std::vector<std::byte> rounded(indices.size() * width);
  sparse::round_to_wire(*kernels_, {DataType::kFloat32, tensor.type},
                        reinterpret_cast<const std::byte*>(sums.data()), sums.size(),
                        rounded.data());
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::memcpy(data + (indices[i] - tensor.first) * width, rounded.data() + i * width, width);
}

void FlatWeights::add(std::span<const std::uint64_t> indices, std::span<const float> values) {
  const FloatEnvironment ieee;
  for (Tensor& tensor : tensors_) {
    const std::size_t own = sparse::count_below(indices, tensor.end());
    add_to(tensor, indices.first(own), values.first(own));
    indices = indices.subspan(own);
    values = values.subspan(own);
  }
}

void FlatWeights::write(std::span<const float> values) {
  for (Tensor& tensor : tensors_) {
    const std::span<const float> own = values.subspan(tensor.first, tensor.count);
    if (!tensor.master.empty()) std::ranges::copy(own, tensor.master.begin());
    sparse::round_to_wire(*kernels_, {DataType::kFloat32, tensor.type},
                          reinterpret_cast<const std::byte*>(own.data()), own.size(), tensor.data);
  }
}

}  // namespace sparcl::elastic
