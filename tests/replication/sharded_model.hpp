#pragma once
// A model of several tensors, and what a rank of a sharded one holds of it.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "src/model/model_hash.hpp"
#include "src/model/schema.hpp"
#include "src/replication/replicated_state.hpp"

namespace sparcl::replication {

// Tensors or slices of them, in memory.
class HeldTensors {
 public:
  explicit HeldTensors(model::Schema schema)
      : schema_(std::move(schema)), bytes_(model::serialise(schema_)) {
    EXPECT_TRUE(model::validate(schema_).ok());
    map_.emplace(model::make_block_map(schema_));
    for (const model::TensorSchema& tensor : schema_) {
      memory_.emplace_back(*model::element_count(tensor) * element_bytes(tensor.datatype) + 1,
                           std::byte{0});
    }
    for (auto& each : memory_) arrays_.push_back(each.data());
  }
  HeldTensors(const HeldTensors&) = delete;
  HeldTensors& operator=(const HeldTensors&) = delete;

  ReplicatedState view() const {
    ReplicatedState view;
    view.map = &*map_;
    view.schema_hash = model::schema_hash(schema_);
    view.schema = bytes_;
    view.schema_digest = *model::sha256_of(bytes_);
    view.arrays = arrays_;
    view.kernels = &kernels::cpu_kernels();
    return view;
  }
  const model::Schema& schema() const { return schema_; }
  std::uint64_t byte_count() const { return map_->byte_count(); }
  std::span<std::byte> tensor(std::size_t i) {
    return std::span(memory_[i]).first(memory_[i].size() - 1);
  }
  Hash128 hash() const { return view().hash(); }

  // About one of `every` bytes.
  void change(std::uint64_t seed, std::uint64_t every) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const std::span<std::byte> bytes = tensor(i);
      for (std::uint64_t at = random() % every; at < bytes.size();
           at += 1 + random() % (2 * every)) {
        bytes[at] = static_cast<std::byte>(static_cast<unsigned>(bytes[at]) + 1);
      }
    }
  }
  // What tensors of another list hold, element by element.
  void copy_from(HeldTensors& whole) {
    for (std::size_t i = 0; i < schema_.size(); ++i) {
      const model::TensorSchema& part = schema_[i];
      std::size_t source = 0;
      while (whole.schema_[source].name != part.name) ++source;
      const std::uint64_t width = element_bytes(part.datatype);
      const std::vector<std::uint64_t>& extent = part.held_shape();
      std::vector<std::uint64_t> index(extent.size(), 0);
      for (std::uint64_t element = 0; element < *model::element_count(part); ++element) {
        std::uint64_t at = 0;
        for (std::size_t d = 0; d < extent.size(); ++d) {
          at = at * part.shape[d] + index[d] + (part.slice ? part.slice->begin[d] : 0);
        }
        std::memcpy(memory_[i].data() + element * width, whole.memory_[source].data() + at * width,
                    width);
        for (std::size_t d = extent.size(); d-- > 0;) {
          if (++index[d] < extent[d]) break;
          index[d] = 0;
        }
      }
    }
  }

 private:
  model::Schema schema_;
  std::vector<std::byte> bytes_;
  std::optional<codec::BlockMap> map_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::byte*> arrays_;
};

constexpr std::uint64_t kHidden = 256, kHeads = 128, kExperts = 8;

inline model::Schema whole_schema() {
  return {{"embed", DataType::kBfloat16, {512, kHidden}},
          {"qkv", DataType::kBfloat16, {3 * kHeads, kHidden}},
          {"out", DataType::kBfloat16, {kHidden, kHeads}},
          {"experts", DataType::kFloat32, {kExperts, 64, 32}},
          {"norm", DataType::kFloat32, {kHidden}}};
}

// Tensor-parallel rank of `ranks`: rows of the embedding, its heads of the fused projection,
// columns of the next one, its experts.
inline model::Schema shard_schema(std::uint64_t rank, std::uint64_t ranks) {
  using model::TensorSlice;
  const std::uint64_t rows = 512 / ranks, heads = kHeads / ranks, experts = kExperts / ranks;
  model::Schema shard{{"embed",
                       DataType::kBfloat16,
                       {512, kHidden},
                       TensorSlice{{rank * rows, 0}, {rows, kHidden}}}};
  for (std::uint64_t part = 0; part < 3; ++part) {
    shard.push_back({"qkv",
                     DataType::kBfloat16,
                     {3 * kHeads, kHidden},
                     TensorSlice{{part * kHeads + rank * heads, 0}, {heads, kHidden}}});
  }
  shard.push_back({"out",
                   DataType::kBfloat16,
                   {kHidden, kHeads},
                   TensorSlice{{0, rank * heads}, {kHidden, heads}}});
  shard.push_back({"experts",
                   DataType::kFloat32,
                   {kExperts, 64, 32},
                   TensorSlice{{rank * experts, 0, 0}, {experts, 64, 32}}});
  shard.push_back({"norm", DataType::kFloat32, {kHidden}});
  return shard;
}

}  // namespace sparcl::replication
