#include "src/model/files/mode_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "src/codec/block_mode.hpp"
#include "src/codec/update.hpp"
#include "src/model/files/change_shape.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/files/delta_maker.hpp"
#include "src/model/model_hash.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kEncodeElements = std::uint64_t{4} << 20;
constexpr std::uint64_t kTwiceBytes =
    std::uint64_t{256} << 20;  // smaller ones are encoded twice: the first run warms up

struct StatePair {
  const StateView& base;
  const StateView& target;
  const codec::BlockMap& map;
  const kernels::KernelSet& kernels;
  const FileWatch& watch;
};

// As `sparcl diff` writes it: the bytes are those of its file.
Result<std::uint64_t> encode_file(const StatePair& pair, const codec::BlockMode* mode,
                                  ModeCost& cost) {
  CountingSink sink;
  const auto begin = std::chrono::steady_clock::now();
  SPARCL_ASSIGN_OR_RETURN(const DiffReport report,
                          encode_delta(pair.base, pair.target, {.mode = mode}, sink, pair.watch));
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  cost.bytes = report.bytes;
  return report.changed;
}

// As a broadcast's root encodes it, which knows the base's hash and does not optimise the last
// bytes.
Result<std::uint64_t> encode_broadcast(const StatePair& pair, const Hash128& base_hash,
                                       ModeCost& cost) {
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
  const std::uint64_t elements = pair.map.element_count();
  for (std::uint64_t done = 0; !encoder.finished(); done += kEncodeElements) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kEncodeElements, sink));
    SPARCL_RETURN_IF_ERROR(pair.watch.part(std::min(done + kEncodeElements, elements), elements,
                                           pair.map.byte_count()));
  }
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  cost.bytes = encoder.stats().encoded_bytes;
  return encoder.stats().changed;
}

// For small ones the faster of two runs: the first warms up.
template <class Encode>
Result<std::uint64_t> best_of(const StatePair& pair, ModeCost& cost, const Encode& encode) {
  Result<std::uint64_t> changed = encode(cost);
  if (!changed.ok() || pair.map.byte_count() >= kTwiceBytes) return changed;
  ModeCost again = cost;
  changed = encode(again);
  cost.seconds = std::min(cost.seconds, again.seconds);
  return changed;
}

Status measure_modes(const StatePair& pair, const Hash128& base_hash, ModeCosts& costs) {
  std::vector<const codec::BlockMode*> modes{nullptr};
  for (const codec::BlockMode* mode : forceable_modes()) modes.push_back(mode);
  for (const codec::BlockMode* mode : modes) {
    ModeCost cost{mode == nullptr ? "auto" : mode->name, 0, 0};
    const Result<std::uint64_t> changed =
        best_of(pair, cost, [&](ModeCost& each) { return encode_file(pair, mode, each); });
    if (!changed.ok()) return changed.status();
    costs.shape.changed = *changed;
    costs.modes.push_back(std::move(cost));
  }
  costs.best_mode =
      std::min_element(costs.modes.begin() + 1, costs.modes.end(),
                       [](const ModeCost& a, const ModeCost& b) { return a.bytes < b.bytes; })
          ->name;
  costs.broadcast.name = "broadcast";
  return best_of(pair, costs.broadcast,
                 [&](ModeCost& each) { return encode_broadcast(pair, base_hash, each); })
      .status();
}

}  // namespace

Result<ModeCosts> measure_costs(const std::string& first, const std::string& second,
                                const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, chosen_kernels());
  const Result<OpenCheckpoint> base = open_checkpoint(first);
  if (!base.ok()) return base.status();
  SPARCL_ASSIGN_OR_RETURN(const OpenCheckpoint target, open_checkpoint(second));
  for (const OpenCheckpoint* each : {&*base, &target})
    watch.stray_shards(each->checkpoint->stray_paths());
  const StateView before = base->view(), after = target.view();
  if (before.schema != after.schema) {
    return Status(Code::kMismatch,
                  fmt::format("{} and {} have not the same tensors: give two states of one model",
                              first, second));
  }
  const codec::BlockMap map = make_block_map(before.schema);
  SPARCL_ASSIGN_OR_RETURN(const Hash128 base_hash, state_hash(*base->checkpoint, watch));
  ModeCosts costs;
  costs.shape = measure_shape(before, after, *kernels);
  SPARCL_RETURN_IF_ERROR(measure_modes({before, after, map, *kernels, watch}, base_hash, costs));
  for (const OpenCheckpoint* each : {&*base, &target})
    SPARCL_RETURN_IF_ERROR(each->source->status());
  return costs;
}

}  // namespace sparcl::model
