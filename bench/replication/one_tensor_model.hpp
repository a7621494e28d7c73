#pragma once
// What the benches of the replication service share: a model of one tensor, and the end of a run
// that cannot go on.

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/status.hpp"
#include "src/replication/replicated_state.hpp"

namespace sparcl::bench {

class OneTensorModel {
 public:
  explicit OneTensorModel(std::uint64_t elements) : weights_(elements, 0x3c00) {
    const codec::ArraySpec array{DataType::kBfloat16, elements};
    map_ = std::make_unique<codec::BlockMap>(std::span(&array, 1));
    data_ = reinterpret_cast<std::byte*>(weights_.data());
  }
  replication::ReplicatedState view() {
    replication::ReplicatedState view;
    view.map = map_.get();
    view.schema_hash = {1, 2};
    view.arrays = std::span(&data_, 1);
    view.kernels = &kernels::cpu_kernels();
    return view;
  }
  std::vector<std::uint16_t>& weights() { return weights_; }

 private:
  std::vector<std::uint16_t> weights_;
  std::unique_ptr<codec::BlockMap> map_;
  std::byte* data_ = nullptr;
};

template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(*result);
  fmt::print(stderr, "{}\n", result.status().message());
  std::exit(1);
}

}  // namespace sparcl::bench
