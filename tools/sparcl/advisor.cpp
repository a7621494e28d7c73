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
#include "tools/sparcl/delta_maker.hpp"
#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{4} << 20;
constexpr std::uint64_t kSmallBytes = std::uint64_t{256}
                                      << 20;  // encoded twice: the first time warms up
constexpr double kAlphaSeconds = 20e-6;  // a message over a network, as in collectives::link_cost
constexpr double kReadBytesPerSecond =
    20e9;  // of one core that compares two arrays and finds nothing, heuristic

struct Pair {
  const StateView& base;
  const StateView& target;
  const codec::BlockMap& map;
  const kernels::KernelSet& kernels;
};

// As `sparcl diff` writes it: the bytes are those of its file.
Result<std::uint64_t> encode_file(const Pair& pair, const codec::BlockMode* mode, ModeCost& cost) {
  CountingSink sink;
  const auto begin = std::chrono::steady_clock::now();
  SPARCL_ASSIGN_OR_RETURN(const DiffReport report,
                          encode_delta(pair.base, pair.target, {.mode = mode}, sink));
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  cost.bytes = report.bytes;
  return report.changed;
}

// As a broadcast's root does it, which knows the base's hash and spends no time on the last bytes.
Result<std::uint64_t> encode_broadcast(const Pair& pair, const Hash128& base_hash, ModeCost& cost) {
  codec::EncodeOptions options;
  options.allow_classes = true;
  options.with_state_hash = true;
  options.base_hash = base_hash;
  options.base_source = pair.base.source;
  options.target_source = pair.target.source;
  codec::UpdateEncoder encoder(pair.map, pair.base.tensors, pair.target.tensors, options,
                               pair.kernels);
  CountingSink sink;
  const auto begin = std::chrono::steady_clock::now();
  while (!encoder.finished()) SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, sink));
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  cost.bytes = encoder.stats().encoded_bytes;
  return encoder.stats().changed;
}

// Of small ones the better of two runs: the first warms up.
template <class Encode>
Result<std::uint64_t> best_of(const Pair& pair, ModeCost& cost, const Encode& encode) {
  Result<std::uint64_t> changed = encode(cost);
  if (!changed.ok() || pair.map.byte_count() >= kSmallBytes) return changed;
  ModeCost again = cost;
  changed = encode(again);
  cost.seconds = std::min(cost.seconds, again.seconds);
  return changed;
}

Status measure_modes(const Pair& pair, const Hash128& base_hash, Advice& advice) {
  std::vector<const codec::BlockMode*> modes{nullptr};
  for (const codec::BlockMode* mode : codec::block_modes()) {
    if (!mode->fresh && mode != &codec::kMixedMode && mode != &codec::kAddedMode)
      modes.push_back(mode);
  }
  for (const codec::BlockMode* mode : modes) {
    ModeCost cost{mode == nullptr ? "auto" : mode->name, 0, 0};
    const Result<std::uint64_t> changed =
        best_of(pair, cost, [&](ModeCost& each) { return encode_file(pair, mode, each); });
    if (!changed.ok()) return changed.status();
    advice.shape.changed = *changed;
    advice.modes.push_back(std::move(cost));
  }
  advice.best_mode =
      std::min_element(advice.modes.begin() + 1, advice.modes.end(),
                       [](const ModeCost& a, const ModeCost& b) { return a.bytes < b.bytes; })
          ->name;
  advice.broadcast.name = "broadcast";
  return best_of(pair, advice.broadcast,
                 [&](ModeCost& each) { return encode_broadcast(pair, base_hash, each); })
      .status();
}

// The time of a broadcast at any density, from what was measured at one.
class Prediction {
 public:
  Prediction(const Advice& advice, const comm::LinkCost& link, int ranks)
      : shape_(advice.shape),
        link_(link),
        ranks_(ranks),
        encode_seconds_(advice.broadcast.seconds) {
    const auto bits = 8 * static_cast<double>(advice.broadcast.bytes);
    if (shape_.changed > 0) {
      value_bits_ = std::max(
          1.0, bits / static_cast<double>(shape_.changed) - shape_.position_bits_given_old);
      position_factor_ =
          shape_.position_bits > 0 ? shape_.position_bits_given_old / shape_.position_bits : 1;
    }
  }

  collectives::broadcast::FanoutPlan plan(std::uint64_t bytes) const {
    return collectives::broadcast::plan_fanout(link_, ranks_, bytes, "auto", 0);
  }

  double sparse_seconds(double density) const {
    const auto elements = static_cast<double>(shape_.elements);
    const double bits =
        elements * (position_factor_ * binary_entropy(density) + density * value_bits_);
    const double bytes = std::min(bits / 8, static_cast<double>(shape_.dense_bytes));
    return std::max(encode_seconds(density), plan(static_cast<std::uint64_t>(bytes)).seconds);
  }

 private:
  // Reading takes its time whatever changes; what is above that grows with the changes.
  double encode_seconds(double density) const {
    const double read = std::min(encode_seconds_,
                                 2 * static_cast<double>(shape_.dense_bytes) / kReadBytesPerSecond);
    const double measured = shape_.density();
    return measured == 0 ? read : read + (encode_seconds_ - read) * density / measured;
  }

  const ChangeShape& shape_;
  comm::LinkCost link_;
  int ranks_;
  double encode_seconds_;
  double value_bits_ = 2;
  double position_factor_ = 1;
};

}  // namespace

void predict(const AdviseOptions& options, Advice& advice) {
  const comm::LinkCost link{kAlphaSeconds, 8e-9 / options.link_gbit};
  const Prediction prediction(advice, link, options.ranks);
  const collectives::broadcast::FanoutPlan sparse = prediction.plan(advice.broadcast.bytes);
  const collectives::broadcast::FanoutPlan dense = prediction.plan(advice.shape.dense_bytes);
  advice.sparse_algorithm = sparse.row->name;
  advice.dense_algorithm = dense.row->name;
  advice.sparse_seconds = std::max(sparse.seconds, advice.broadcast.seconds);
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
  const Result<OpenCheckpoint> base = open_checkpoint(options.first);
  if (!base.ok()) return base.status();
  SPARCL_ASSIGN_OR_RETURN(const OpenCheckpoint target, open_checkpoint(options.second));
  for (const OpenCheckpoint* each : {&*base, &target})
    warn_of_strays(stray_paths(*each->checkpoint));
  const StateView before = base->view(), after = target.view();
  if (before.schema != after.schema) {
    return Status(Code::kMismatch,
                  fmt::format("{} and {} have not the same tensors: give two states of one model",
                              options.first, options.second));
  }
  const codec::BlockMap map = model::make_block_map(before.schema);
  SPARCL_ASSIGN_OR_RETURN(const Hash128 base_hash, model::state_hash(*base->checkpoint));
  Advice advice;
  advice.shape = measure_shape(before, after, **kernels);
  SPARCL_RETURN_IF_ERROR(measure_modes({before, after, map, **kernels}, base_hash, advice));
  for (const OpenCheckpoint* each : {&*base, &target})
    SPARCL_RETURN_IF_ERROR(each->source->status());
  predict(options, advice);
  return advice;
}

}  // namespace sparcl::tool
