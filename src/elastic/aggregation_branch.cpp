#include "src/elastic/aggregation_branch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/net/socket.hpp"

namespace sparcl::elastic {
namespace {

constexpr double kBranchLook = 0.5;  // seconds, at most between two looks

}  // namespace

Result<std::unique_ptr<AggregationBranch>> AggregationBranch::create(
    const kernels::KernelSet& kernels, DeskOptions options, UplinkOptions above,
    const std::string& spill_folder, replication::Listener listener) {
  options.held_bytes = default_held_bytes(options.count);
  std::unique_ptr<AggregationBranch> made(new AggregationBranch(kernels, options, spill_folder));
  options.waiting = made->waiting_.held();
  SPARCL_ASSIGN_OR_RETURN(made->desk_, BranchDesk::create(kernels, std::move(options),
                                                          std::move(above), std::move(listener)));
  return made;
}

// After an error in the middle of a round its sum is not whole any more: nothing is sent.
Result<RoundReport> AggregationBranch::next(double seconds) try {
  if (!broken_.ok()) return broken_;
  Result<RoundReport> ended = try_next(seconds);
  if (!ended.ok() && ended.status().code() != Code::kTimeout) end(ended.status());
  return ended;
} catch (const std::bad_alloc&) {
  end(no_memory());
  return broken_;
}

// Its workers and its parent do not wait for a sum that never comes.
void AggregationBranch::end(const Status& why) {
  broken_ = why;
  desk_->end();
}

Result<RoundReport> AggregationBranch::try_next(double seconds) {
  const double until = net::monotonic_seconds() + seconds;
  while (true) {
    const double left = until - net::monotonic_seconds();
    BranchDesk::Turn turn = desk_->wait(std::clamp(left, 0.0, kBranchLook));
    SPARCL_RETURN_IF_ERROR(take(turn));
    if (turn.collect) return end_round(turn);
    if (left > 0) continue;
    const Status trouble = desk_->uplink().trouble();
    return Status(Code::kTimeout, fmt::format("no round has ended{}{}", trouble.ok() ? "" : ": ",
                                              trouble.message()));
  }
}

AggregationBranch::Open& AggregationBranch::open(std::uint64_t round, bool has_weights) {
  return rounds_.try_emplace(round, buffers_, kernels_, run_, has_weights, waiting_).first->second;
}

// They are summed as they come, unless their clipping depends on all.
Status AggregationBranch::take(BranchDesk::Turn& turn) {
  if (std::exchange(life_, turn.life) != turn.life) rounds_.clear();
  const std::uint64_t ended = turn.collect ? std::min(turn.round, turn.collect->round) : turn.round;
  rounds_.erase(rounds_.begin(), rounds_.lower_bound(ended));
  for (Arrival& each : turn.arrivals) {
    Open& round = open(each.in_round(), turn.sums_weights);
    round.report.received_bytes += each.bytes;
    if (!each.is_here()) continue;  // it comes with a branch's sums
    if (turn.sums_at_once) {
      SPARCL_RETURN_IF_ERROR(round.sum.add(each, each.clip));
      continue;
    }
    each.part = waiting_.put(std::move(each.part));
    round.held.push_back(std::move(each));
  }
  return {};
}

Result<RoundReport> AggregationBranch::end_round(const BranchDesk::Turn& turn) {
  const Collect& wanted = *turn.collect;
  const double begun = net::monotonic_seconds();
  Open& round = open(wanted.round, turn.sums_weights);
  RoundReport report = std::move(round.report);
  report.round = wanted.round;
  report.begun = begun;
  report.listed = static_cast<std::uint32_t>(turn.listed.size());
  for (const aggregate::Listed& each : turn.listed) {
    report.late += each.rounds_late > 0 ? 1 : 0;
    report.total_weight += static_cast<double>(each.weight);
  }
  if (wanted.is_wanted) {
    for (Arrival& each : round.held) {
      const auto clip = std::ranges::find(wanted.clips, each.listed.id, &Collect::Clip::id);
      SPARCL_RETURN_IF_ERROR(round.sum.add(each, clip == wanted.clips.end() ? 1.0F : clip->factor));
      each.part = {};
    }
    for (BranchSum& each : desk_->collect_sums(turn.life, wanted)) {
      report.received_bytes += each.told.bytes;
      SPARCL_RETURN_IF_ERROR(round.sum.add(std::move(each)));
    }
    SPARCL_ASSIGN_OR_RETURN(std::vector<BranchSum> sums,
                            round.sum.take(wanted.round, wanted.spans));
    SPARCL_FAILPOINT("aggregate.branch_summed");
    desk_->deliver(turn.life, wanted.round, std::move(sums));
  } else {
    report.failure = Status(
        Code::kRemoteError,
        fmt::format("round {} has failed: the parent's report and log say why", wanted.round));
  }
  version_ = wanted.round + 1;
  rounds_.erase(rounds_.begin(), rounds_.upper_bound(wanted.round));
  report.seconds = net::monotonic_seconds() - begun;
  return report;
}

}  // namespace sparcl::elastic
