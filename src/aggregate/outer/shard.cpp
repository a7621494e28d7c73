#include "src/aggregate/outer/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>

#include "src/aggregate/sum/part_entries.hpp"
#include "src/base/float_environment.hpp"
#include "src/sparse/selection/selection.hpp"

namespace sparcl::aggregate {
namespace {

constexpr unsigned kBlockLog2 = 16;

std::uint32_t key_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffff; }

Status bad_part() { return Status(Code::kCorrupt, "the sum of a round is no part of this shard"); }

// The entries of a part as indices within the shard.
bool read_entries(const kernels::KernelSet& kernels, std::span<const std::byte> part,
                  const sparse::BlockRun& run, std::uint64_t count,
                  std::vector<std::uint64_t>& indices, std::vector<float>& values) {
  const std::optional<sparse::PartView> view =
      sparse::PartView::read(kernels, part, run, sizeof(float));
  if (!view) return false;
  indices.resize(view->entries());
  if (!write_indices(kernels, *view, run, run.first_index() + count, indices.data())) return false;
  for (std::uint64_t& index : indices) index -= run.first_index();
  values.resize(view->entries());
  if (!values.empty()) std::memcpy(values.data(), view->values(), values.size() * sizeof(float));
  return true;
}

}  // namespace

Shard::Shard(const ShardOptions& options, const kernels::KernelSet& kernels)
    : options_(options), kernels_(&kernels) {}

Result<Shard> Shard::create(const ShardOptions& options, const kernels::KernelSet& kernels) {
  SPARCL_RETURN_IF_ERROR(check_outer_options(options.outer));
  if (options.first % (std::uint64_t{1} << kBlockLog2) != 0)
    return Status(
        Code::kInvalidArgument,
        fmt::format("a shard begins at element {}: give a multiple of 65536", options.first));
  Shard shard(options, kernels);
  try {
    shard.moments_.assign(outer_moments(options.outer), std::vector<float>(options.count));
    if (options.has_residual()) shard.residual_.resize(options.count);
    if (shard.is_dense()) shard.dense_.resize(options.count);
  } catch (const std::bad_alloc&) {
    return Status(
        Code::kOutOfMemory,
        fmt::format("no memory for the state of {} elements: use more shards", options.count));
  }
  return shard;
}

sparse::BlockRun Shard::run() const {
  const std::uint64_t blocks =
      (options_.count + (std::uint64_t{1} << kBlockLog2) - 1) >> kBlockLog2;
  return {options_.first >> kBlockLog2, blocks, kBlockLog2};
}

Status Shard::check(const ShardInput& input) const {
  if (options_.mean == MeanKind::kByWeight && !(input.total_weight > 0))
    return Status(Code::kInvalidArgument,
                  "the weights of all contributions are 0: a mean by weight needs some data");
  if (options_.mean == MeanKind::kOverWorkers && input.workers == 0)
    return Status(Code::kInvalidArgument, "no worker was active when the round began");
  return {};
}

Result<Buffer> Shard::result_part(BufferSource& buffers, const ShardInput& input) {
  SPARCL_RETURN_IF_ERROR(check(input));
  const auto sum = sparse::PartView::read(*kernels_, input.sum, run(), sizeof(float));
  if (!sum) return bad_part();
  std::vector<float> weights;
  if (options_.mean == MeanKind::kOverContributors) {
    const auto view = sparse::PartView::read(*kernels_, input.weights, run(), sizeof(float));
    if (!view || view->entries() != sum->entries()) return bad_part();
    weights.resize(view->entries());
    if (!weights.empty())
      std::memcpy(weights.data(), view->values(), weights.size() * sizeof(float));
  }
  const FloatEnvironment ieee;
  std::byte* values = nullptr;
  Buffer result = sparse::with_room(buffers, input.sum, sizeof(float), sizeof(float), values);
  if (sum->entries() > 0) std::memcpy(values, sum->values(), sum->entries() * sizeof(float));
  const std::span<float> own(reinterpret_cast<float*>(values), sum->entries());
  divide(input, weights, own);
  ++steps_;
  run_optimizer(own);
  return result;
}

Status Shard::propose(const ShardInput& input, std::uint64_t keep) {
  SPARCL_RETURN_IF_ERROR(check(input));
  SPARCL_RETURN_IF_ERROR(read(input));
  const FloatEnvironment ieee;
  divide(input, weights_, proposal_.values);
  ++steps_;
  if (!is_dense()) {
    run_optimizer(proposal_.values);
    return {};
  }
  spread();
  run_optimizer(dense_);
  if (options_.has_residual()) {
    take_largest(keep == 0 ? options_.count : keep);
  } else {
    take_all();
  }
  return {};
}

Status Shard::read(const ShardInput& input) {
  ShardResult read;
  if (!read_entries(*kernels_, input.sum, run(), options_.count, read.indices, read.values))
    return bad_part();
  weights_.clear();
  if (options_.mean == MeanKind::kOverContributors) {
    std::vector<std::uint64_t> indices;
    if (!read_entries(*kernels_, input.weights, run(), options_.count, indices, weights_) ||
        indices != read.indices)
      return bad_part();
  }
  proposal_ = std::move(read);
  return {};
}

void Shard::divide(const ShardInput& input, std::span<const float> weights,
                   std::span<float> values) const {
  const double divisor = options_.mean == MeanKind::kByWeight      ? input.total_weight
                         : options_.mean == MeanKind::kOverWorkers ? input.workers
                                                                   : 1;
  if (weights.empty()) {
    for (float& value : values) value = static_cast<float>(value / divisor) + 0.0F;
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = weights[i] == 0
                    ? 0.0F
                    : static_cast<float>(values[i] / static_cast<double>(weights[i])) + 0.0F;
}

void Shard::spread() {
  std::fill(dense_.begin(), dense_.end(), 0.0F);
  for (std::size_t i = 0; i < proposal_.indices.size(); ++i)
    dense_[proposal_.indices[i]] = proposal_.values[i];
}

void Shard::run_optimizer(std::span<float> values) {
  std::vector<float*> state;
  for (std::vector<float>& moment : moments_) state.push_back(moment.data());
  outer_row(options_.outer.kind).run({options_.outer, steps_, state, values.data(), values.size()});
}

void Shard::take_largest(std::uint64_t keep) {
  sparse::Selection selection(DataType::kFloat32, *kernels_);
  const sparse::Selected selected =
      selection.select(reinterpret_cast<const std::byte*>(dense_.data()),
                       reinterpret_cast<std::byte*>(residual_.data()), options_.count,
                       std::min(keep, options_.count));
  proposal_.indices.assign(selected.indices.begin(), selected.indices.end());
  proposal_.values.resize(selected.indices.size());
  if (proposal_.values.empty()) return;
  std::memcpy(proposal_.values.data(), selected.accumulators,
              proposal_.values.size() * sizeof(float));
}

void Shard::take_all() {
  proposal_ = {};
  for (std::uint64_t i = 0; i < options_.count; ++i) {
    if (dense_[i] == 0) continue;
    proposal_.indices.push_back(i);
    proposal_.values.push_back(dense_[i]);
  }
}

std::vector<std::uint32_t> Shard::keys() const {
  std::vector<std::uint32_t> keys;
  keys.reserve(proposal_.values.size());
  for (const float value : proposal_.values) keys.push_back(key_of(value));
  return keys;
}

ShardResult Shard::keep(std::uint32_t least, std::uint64_t ties) {
  ShardResult kept;
  for (std::size_t i = 0; i < proposal_.indices.size(); ++i) {
    const std::uint32_t key = key_of(proposal_.values[i]);
    if (key < least || (key == least && ties == 0)) continue;
    ties -= key == least ? 1 : 0;
    kept.indices.push_back(proposal_.indices[i]);
    kept.values.push_back(proposal_.values[i]);
  }
  proposal_ = std::move(kept);
  round_values();
  for (std::uint64_t& index : proposal_.indices) index += options_.first;
  return std::exchange(proposal_, {});
}

// The values that are sent; what that leaves out stays in the residual.
void Shard::round_values() {
  if (!options_.has_residual()) return;
  const sparse::WireType wire = sparse::wire_type(DataType::kFloat32, options_.wire);
  std::vector<float>& values = proposal_.values;
  if (!wire.is_exact()) {
    std::vector<std::byte> sent(values.size() * element_bytes(wire.sent));
    const auto* const exact = reinterpret_cast<const std::byte*>(values.data());
    sparse::round_to_wire(*kernels_, wire, exact, values.size(), sent.data());
    sparse::widen_from_wire(*kernels_, wire, sent.data(), values.size(),
                            reinterpret_cast<std::byte*>(values.data()));
  }
  const FloatEnvironment ieee;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& rest = residual_[proposal_.indices[i]];
    rest = rest == values[i] || !std::isfinite(rest) ? 0.0F : rest - values[i];
  }
}

double Shard::residual_squares() const {
  double squares = 0;
  for (const float value : residual_)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return squares;
}

std::vector<std::span<float>> Shard::arrays() {
  std::vector<std::span<float>> all;
  for (std::vector<float>& moment : moments_) all.emplace_back(moment);
  if (options_.has_residual()) all.emplace_back(residual_);
  return all;
}

std::vector<std::string> Shard::array_names(const ShardOptions& options) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outer_moments(options.outer); ++i)
    names.push_back(fmt::format("moment.{}", i));
  if (options.has_residual()) names.emplace_back("residual");
  return names;
}

}  // namespace sparcl::aggregate
