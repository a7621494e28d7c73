#include "src/aggregate/outer/aggregator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/checksum.hpp"

namespace sparcl::aggregate {
namespace {

constexpr std::uint64_t kBlockElements = 65536;

std::uint64_t blocks_of(std::uint64_t count) {
  return count / kBlockElements + (count % kBlockElements != 0 ? 1 : 0);
}

Status bad_option(const char* name, double value, const char* range) {
  return Status(Code::kInvalidArgument, fmt::format("{} is {}: {}", name, value, range));
}

}  // namespace

Status check_aggregator_options(const AggregatorOptions& options) {
  SPARCL_RETURN_IF_ERROR(check_outer_options(options.outer));
  const ClipOptions& clip = options.screen.clip;
  if (!(clip.l2_norm >= 0)) return bad_option("clip_l2", clip.l2_norm, "give 0 (off) or more");
  if (!(clip.median_factor >= 0))
    return bad_option("clip_median", clip.median_factor, "give 0 (off) or more");
  return {};
}

Result<Aggregator> Aggregator::create(std::uint64_t count, const AggregatorOptions& options) {
  SPARCL_RETURN_IF_ERROR(check_aggregator_options(options));
  return Aggregator(count, options);
}

Status Aggregator::take_range(std::uint64_t first, std::uint64_t count,
                              const kernels::KernelSet& kernels) {
  if (has_range_ && first == first_ && count == own_) return {};
  if (has_range_ && options_.has_state())
    return Status(
        Code::kInvalidArgument,
        fmt::format("the aggregator has the state of {} elements from {} on, and this rank of this "
                    "communicator aggregates {} from {} on: save it and load it again",
                    own_, first_, count, first));
  if (count > 0) {
    SPARCL_ASSIGN_OR_RETURN(Shard made, Shard::create({first, count, options_.mean, options_.outer,
                                                       options_.keep > 0, options_.wire},
                                                      kernels));
    shard_.emplace(std::move(made));
  } else {
    shard_.reset();
  }
  has_range_ = true;
  first_ = first;
  own_ = count;
  return {};
}

std::uint64_t Aggregator::fingerprint() const {
  const OuterOptions& outer = options_.outer;
  const ScreenOptions& screen = options_.screen;
  const std::string facts = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(options_.mean),
      static_cast<int>(outer.kind), outer.learning_rate, outer.momentum, outer.beta2, outer.epsilon,
      outer.delay, outer.activation, static_cast<int>(screen.non_finite), screen.clip.l2_norm,
      screen.clip.median_factor, options_.keep, static_cast<int>(options_.wire), stats_.rounds);
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(facts)));
  return hash.finish().low;
}

std::uint64_t shards_of(std::uint64_t count, std::uint64_t most) {
  return std::clamp<std::uint64_t>(most, 1, std::max<std::uint64_t>(blocks_of(count), 1));
}

ShardRange shard_range(std::uint64_t count, std::uint64_t shards, std::uint64_t shard) {
  const std::uint64_t blocks = blocks_of(count), each = blocks / shards, more = blocks % shards;
  const auto begin = [&](std::uint64_t s) {
    return std::min((s * each + std::min(s, more)) * kBlockElements, count);
  };
  return {begin(shard), begin(shard + 1) - begin(shard)};
}

}  // namespace sparcl::aggregate
