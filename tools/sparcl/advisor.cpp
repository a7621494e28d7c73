#include "tools/sparcl/advisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "collectives/broadcast/fanout.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/update.hpp"
#include "src/model/model_hash.hpp"
#include "tools/sparcl/change_shape.hpp"
#include "tools/sparcl/delta_file.hpp"
#include "tools/sparcl/progress.hpp"

namespace sparcl::tool {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{4} << 20;
constexpr std::uint64_t kSmallBytes = std::uint64_t{256} << 20;  // encoded twice: the first time warms up
constexpr double kAlphaSeconds = 20e-6;                          // a message over a network, as in collectives::link_cost
constexpr double kReadBytesPerSecond = 20e9;  // of one core that compares two arrays and finds nothing, heuristic

// Counts what an encoder writes.
class CountingSink : public codec::ByteSink {
 public:
  std::byte* reserve(std::size_t bytes) override {
    if (buffer_.size() < bytes) buffer_.resize(bytes);
    return buffer_.data();
  }
  void commit(std::size_t) override {}

 private:
  std::vector<std::byte> buffer_;
};

struct Pair {
  Hash128 base_hash;
  const model::Checkpoint& base;
  const model::Checkpoint& target;
  const codec::BlockMap& map;
  const kernels::KernelSet& kernels;
};

Result<std::uint64_t> encode(const Pair& pair, const codec::BlockMode* mode, ModeCost& cost, Progress& progress) {
  codec::EncodeOptions options;
  options.mode = mode;
  options.allow_classes = true;  // as in files
  options.with_state_hash = true;
  options.base_hash = pair.base_hash;  // a trainer knows it
  codec::UpdateEncoder encoder(pair.map, pair.base.pointers(), pair.target.pointers(), options, pair.kernels);
  CountingSink sink;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t done = 0; !encoder.finished(); done += kStepElements) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, sink));
    progress.update(std::min(done, pair.map.element_count()), pair.map.element_count());
  }
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  cost.bytes = encoder.stats().encoded_bytes;
  return encoder.stats().changed;
}

Status measure_modes(const Pair& pair, Advice& advice) {
  std::vector<const codec::BlockMode*> modes{nullptr};
  for (const codec::BlockMode* mode : codec::block_modes()) {
    if (!mode->fresh && mode != &codec::kMixedMode) modes.push_back(mode);
  }
  for (const codec::BlockMode* mode : modes) {
    Progress progress(mode == nullptr ? "auto" : mode->name);
    ModeCost cost{mode == nullptr ? "auto" : mode->name, 0, 0};
    for (int run = 0; run < (pair.map.byte_count() < kSmallBytes ? 2 : 1); ++run) {
      const double before = cost.seconds;
      const Result<std::uint64_t> changed = encode(pair, mode, cost, progress);
      if (!changed.ok()) return changed.status();
      advice.shape.changed = *changed;
      if (run > 0) cost.seconds = std::min(cost.seconds, before);
    }
    advice.modes.push_back(std::move(cost));
  }
  advice.best_mode = std::min_element(advice.modes.begin() + 1, advice.modes.end(), [](const ModeCost& a, const ModeCost& b) {
                       return a.bytes < b.bytes;
                     })->name;
  return {};
}

// The time of a broadcast at any density, from what was measured at one.
class Prediction {
 public:
  Prediction(const Advice& advice, const collectives::LinkCost& link, int ranks)
      : shape_(advice.shape), link_(link), ranks_(ranks), encode_seconds_(advice.modes.front().seconds) {
    const auto bits = 8 * static_cast<double>(advice.modes.front().bytes);
    if (shape_.changed > 0) {
      value_bits_ = std::max(1.0, bits / static_cast<double>(shape_.changed) - shape_.position_bits_given_old);
      position_factor_ = shape_.position_bits > 0 ? shape_.position_bits_given_old / shape_.position_bits : 1;
    }
  }

  collectives::FanoutPlan plan(std::uint64_t bytes) const { return collectives::plan_fanout(link_, ranks_, bytes, "auto", 0); }

  double sparse_seconds(double density) const {
    const auto elements = static_cast<double>(shape_.elements);
    const double bits = elements * (position_factor_ * binary_entropy(density) + density * value_bits_);
    const double bytes = std::min(bits / 8, static_cast<double>(shape_.dense_bytes));
    return std::max(encode_seconds(density), plan(static_cast<std::uint64_t>(bytes)).seconds);
  }

 private:
  // Reading takes its time whatever changes; what is above that grows with the changes.
  double encode_seconds(double density) const {
    const double read = std::min(encode_seconds_, 2 * static_cast<double>(shape_.dense_bytes) / kReadBytesPerSecond);
    const double measured = shape_.density();
    return measured == 0 ? read : read + (encode_seconds_ - read) * density / measured;
  }

  const ChangeShape& shape_;
  collectives::LinkCost link_;
  int ranks_;
  double encode_seconds_;
  double value_bits_ = 2;
  double position_factor_ = 1;
};

}  // namespace

void predict(const AdviseOptions& options, Advice& advice) {
  const collectives::LinkCost link{kAlphaSeconds, 8e-9 / options.link_gbit};
  const Prediction prediction(advice, link, options.ranks);
  const collectives::FanoutPlan sparse = prediction.plan(advice.modes.front().bytes);
  const collectives::FanoutPlan dense = prediction.plan(advice.shape.dense_bytes);
  advice.sparse_algorithm = sparse.row->name;
  advice.dense_algorithm = dense.row->name;
  advice.sparse_seconds = std::max(sparse.seconds, advice.modes.front().seconds);
  advice.dense_seconds = dense.seconds;
  advice.sparse_wins = advice.sparse_seconds < advice.dense_seconds;
  if (prediction.sparse_seconds(1) < dense.seconds) return;  // wins at all densities
  double low = 0;
  double high = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (prediction.sparse_seconds(middle) < dense.seconds ? low : high) = middle;
  }
  advice.dense_wins_above = low;
}

Result<Advice> advise(const AdviseOptions& options) {
  const Result<const kernels::KernelSet*> kernels = chosen_kernels();
  if (!kernels.ok()) return kernels.status();
  const Result<model::Checkpoint> base = model::Checkpoint::open(options.first);
  if (!base.ok()) return base.status();
  const Result<model::Checkpoint> target = model::Checkpoint::open(options.second);
  if (!target.ok()) return target.status();
  if (base->schema() != target->schema()) {
    return Status(Code::kMismatch,
                  fmt::format("{} and {} have not the same tensors: give two states of one model", options.first, options.second));
  }
  const codec::BlockMap map = model::make_block_map(base->schema());
  const Result<Hash128> base_hash = model::state_hash(*base);
  if (!base_hash.ok()) return base_hash.status();
  Advice advice;
  advice.shape = measure_shape(*base, *target, **kernels);
  SPARCL_RETURN_IF_ERROR(measure_modes({*base_hash, *base, *target, map, **kernels}, advice));
  predict(options, advice);
  return advice;
}

}  // namespace sparcl::tool
