#include "src/elastic/aggregation_root.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "src/aggregate/outer/aggregator_file.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/model/checkpoint.hpp"
#include "src/net/socket.hpp"

namespace sparcl::elastic {
namespace {

using aggregate::MeanKind;
using aggregate::NonFinite;

// The log becomes a state when it is this much larger: reading it again takes longer then.
// Heuristic.
constexpr std::uint64_t kLogTimes = 2;
constexpr std::uint64_t kMinLogBytes = std::uint64_t{64} << 20;
constexpr double kTermLook = 0.5;  // seconds between two looks for another aggregator

}  // namespace

Result<std::unique_ptr<AggregationRoot>> AggregationRoot::create(const kernels::KernelSet& kernels,
                                                                 FlatWeights weights,
                                                                 aggregate::Aggregator& aggregator,
                                                                 const RootOptions& options) {
  SPARCL_RETURN_IF_ERROR(aggregate::check_round_options(options.desk.round));
  weights.keep_masters();
  if (aggregator.count() != weights.count())
    return Status(Code::kInvalidArgument,
                  fmt::format("the aggregator is of {} elements, and the model has {} of type "
                              "float32, bfloat16 and float16",
                              aggregator.count(), weights.count()));
  SPARCL_RETURN_IF_ERROR(aggregator.take_range(0, weights.count(), kernels));
  std::unique_ptr<AggregationRoot> made(
      new AggregationRoot(kernels, std::move(weights), aggregator, options));
  if (!options.folder.empty()) SPARCL_RETURN_IF_ERROR(made->recover());
  made->begin_sum();
  return made;
}

AggregationRoot::AggregationRoot(const kernels::KernelSet& kernels, FlatWeights weights,
                                 aggregate::Aggregator& aggregator, const RootOptions& options)
    : kernels_(kernels),
      weights_(std::move(weights)),
      aggregator_(aggregator),
      options_(options),
      waiting_(options.spill_folder) {
  options_.desk.run = weights_.run();
  options_.desk.count = weights_.count();
  options_.desk.screen = aggregator.options().screen;
  options_.desk.sums_at_once = options_.desk.screen.clip.median_factor == 0;
  options_.desk.sums_weights = aggregator.options().mean == MeanKind::kOverContributors;
  options_.desk.held_bytes = default_held_bytes(weights_.count());
  options_.desk.waiting = waiting_.held();
}

// --- what was kept ---

// A folder that does not fit is found before its term is taken from another process.
Status AggregationRoot::recover() {
  SPARCL_ASSIGN_OR_RETURN(const RoundLog::Kept before, RoundLog::look(options_.folder));
  if (before.round != 0) SPARCL_RETURN_IF_ERROR(load_kept(before).status());
  SPARCL_ASSIGN_OR_RETURN(RoundLog log, RoundLog::open(options_.folder));
  log_.emplace(std::move(log));
  log_->name_model(options_.model_id);
  SPARCL_ASSIGN_OR_RETURN(const RoundLog::Kept kept, log_->read());
  if (kept.round == 0) return keep();
  SPARCL_RETURN_IF_ERROR(read_kept(kept));
  for (const LoggedRound& each : kept.rounds) SPARCL_RETURN_IF_ERROR(replay(each));
  log_info("aggregate: {}: goes on in round {}, as term {}; {} rounds came from the log",
           options_.folder, round_, log_->term(), kept.rounds.size());
  return {};
}

// The aggregator's state. Mismatch: it, or the weights beside it, is not what this process serves.
Result<aggregate::Aggregator> AggregationRoot::load_kept(const RoundLog::Kept& kept) const {
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint file,
                          model::Checkpoint::open_unread(kept.weights_path));
  if (file.schema().size() != 1 || file.schema()[0].datatype != DataType::kFloat32 ||
      file.byte_count(0) != weights_.count() * sizeof(float))
    return Status(Code::kMismatch,
                  fmt::format("{}: it is not of this model: give another folder of rounds, or the "
                              "model that it was made with",
                              kept.weights_path));
  const std::string* const named = model::find_metadata(file.metadata(0), kModelIdKey);
  if (named != nullptr && *named != options_.model_id)
    return Status(Code::kMismatch,
                  fmt::format("{}: its rounds are of the model '{}', and this one is '{}': give "
                              "that model_id, or another folder of rounds",
                              kept.weights_path, *named, options_.model_id));
  SPARCL_ASSIGN_OR_RETURN(aggregate::Aggregator loaded,
                          aggregate::load_aggregator(kept.aggregator_path, kernels_));
  loaded.stats().rounds = aggregator_.stats().rounds;  // not an option
  if (loaded.fingerprint() != aggregator_.fingerprint())
    return Status(Code::kMismatch,
                  fmt::format("{}: it was made with other options of the aggregator: give the same "
                              "ones, or another folder of rounds",
                              kept.aggregator_path));
  return loaded;
}

Status AggregationRoot::read_kept(const RoundLog::Kept& kept) {
  SPARCL_ASSIGN_OR_RETURN(aggregate::Aggregator loaded, load_kept(kept));
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint file, model::Checkpoint::open(kept.weights_path));
  std::vector<float> weights(weights_.count());
  std::memcpy(weights.data(), file.bytes(0).data(), file.bytes(0).size());
  weights_.write(weights);
  aggregator_ = std::move(loaded);
  round_ = kept.round;
  aggregator_.stats().rounds = round_ - 1;
  for (const LoggedRound& each : kept.past) note_past(each);
  return {};
}

// The same steps as when the round ended.
Status AggregationRoot::replay(const LoggedRound& round) {
  if (round.has_sum) {
    SPARCL_RETURN_IF_ERROR(propose(round));
    const aggregate::ShardResult result = aggregator_.shard()->keep();
    weights_.add(result.indices, result.values);
  }
  note_past(round);
  ++round_;
  ++aggregator_.stats().rounds;
  return {};
}

void AggregationRoot::note_past(const LoggedRound& round) {
  past_.push_back({round.round, round.workers, round.total_weight, false, round.listed, {}, {}});
  while (past_.size() > options_.desk.round.max_rounds_late + 1) past_.pop_front();
}

std::vector<float> AggregationRoot::all_weights() const {
  std::vector<float> weights(weights_.count());
  weights_.read(0, weights);
  return weights;
}

Status AggregationRoot::keep() {
  if (!log_) return {};
  const std::vector<LoggedRound> past(past_.begin(), past_.end());
  return log_->keep(round_, all_weights(), aggregator_, past);
}

// --- rounds ---

Status AggregationRoot::start(replication::Listener listener, const std::string& results,
                              Publish publish) {
  publish_ = std::move(publish);
  SPARCL_RETURN_IF_ERROR(publish_(round_));
  options_.desk.first_round = round_;
  options_.desk.results = results;
  std::vector<Remembered> past;
  for (const LoggedRound& each : past_) {
    for (const aggregate::ContributionId& id : each.listed) past.push_back({id, each.round});
  }
  SPARCL_ASSIGN_OR_RETURN(desk_,
                          RootDesk::create(kernels_, options_.desk, std::move(listener), past));
  return {};
}

void AggregationRoot::begin_sum() {
  sum_.emplace(buffers_, kernels_, weights_.run(), options_.desk.sums_weights, waiting_);
  received_bytes_ = 0;
  failure_ = {};
  held_.clear();
  not_finite_.clear();
}

// Those of the open round. They are summed as they come, unless their clipping depends on all.
void AggregationRoot::take(std::vector<Arrival> arrivals, bool have_waited) {
  for (Arrival& each : arrivals) {
    if (each.in_round() != round_) {
      if (!have_waited) each.part = waiting_.put(std::move(each.part));
      early_.push_back(std::move(each));
      continue;
    }
    received_bytes_ += each.bytes;
    if (each.facts.not_finite > 0) not_finite_.insert(each.listed.id);
    if (!options_.desk.sums_at_once) {
      if (!have_waited) each.part = waiting_.put(std::move(each.part));
      held_.push_back(std::move(each));
      continue;
    }
    if (!each.is_here()) continue;  // it comes with a branch's sums
    if (const Status added = sum_->add(each, each.clip); failure_.ok()) failure_ = added;
  }
}

// A value that is not finite fails the round, if the aggregator's options say so.
Status AggregationRoot::check_finite(const aggregate::Closing& closing) const {
  if (aggregator_.options().screen.non_finite != NonFinite::kFail) return {};
  const bool is_bad = std::ranges::any_of(closing.listed, [this](const aggregate::Listed& each) {
    return not_finite_.contains(each.id);
  });
  if (!is_bad) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("a value of round {} is NaN or infinite: the aggregator's non_finite "
                            "can refuse or zero them",
                            round_));
}

// Clipping by the median: all contributions of the round are known. The factors of those that
// branches have.
Result<std::vector<Collect::Clip>> AggregationRoot::screen_all(const aggregate::Closing& closing) {
  std::set<aggregate::ContributionId> listed;
  for (const aggregate::Listed& each : closing.listed) listed.insert(each.id);
  // Without withdrawn ones. Of one that came again the last arrival counts.
  std::vector<Arrival*> counting;
  for (auto each = held_.rbegin(); each != held_.rend(); ++each) {
    if (listed.erase(each->listed.id) > 0) counting.push_back(&*each);
  }
  std::vector<aggregate::ContributionFacts> facts;
  for (Arrival* each : counting) facts.push_back(each->facts);
  const aggregate::Screening all = aggregate::screen(aggregator_.options().screen, facts);
  std::vector<Collect::Clip> clips;
  for (std::size_t i = 0; i < counting.size(); ++i) {
    if (counting[i]->is_here()) {
      SPARCL_RETURN_IF_ERROR(sum_->add(*counting[i], all.clip[i]));
      counting[i]->part = {};
    } else if (all.clip[i] != 1) {
      clips.push_back({counting[i]->listed.id, all.clip[i]});
    }
  }
  held_.clear();
  return clips;
}

// After an error in the middle of a round its sum is not whole any more: nothing is published.
Result<RoundReport> AggregationRoot::next(double seconds) try {
  if (!broken_.ok()) return broken_;
  return try_next(seconds);
} catch (const std::bad_alloc&) {
  broken_ = no_memory();
  return broken_;
}

Result<RoundReport> AggregationRoot::try_next(double seconds) {
  const double until = net::monotonic_seconds() + seconds;
  if (ended_) return publish_round();  // it could not be published
  while (true) {
    const double left = until - net::monotonic_seconds();
    RootDesk::Turn turn = desk_->wait(std::clamp(left, 0.0, kTermLook));
    take(std::move(turn.arrivals));
    if (turn.is_closed) {
      broken_ = end_round(std::move(turn.closing));
      if (!broken_.ok()) return broken_;
      return publish_round();
    }
    if (log_) SPARCL_RETURN_IF_ERROR(log_->check_term());
    if (left <= 0)
      return Status(Code::kTimeout,
                    fmt::format("round {} has not ended: {} contributions have come", round_,
                                desk_->listed()));
  }
}

Status AggregationRoot::check_enough(const aggregate::Closing& closing) const {
  if (!closing.is_short) return {};
  if (closing.listed.empty())
    return Status(Code::kRemoteError,
                  fmt::format("round {} has no contribution: all were refused, or were lost with a "
                              "branch. Their workers contribute them again",
                              round_));
  return Status(Code::kTimeout,
                fmt::format("round {} has {} contributions by its deadline, fewer than its quorum: "
                            "start more workers, or give a smaller quorum",
                            round_, closing.listed.size()));
}

// An error is the round's: it fails, and the next one begins. What branches have lost is no more in
// `closing`.
Status AggregationRoot::sum_up(aggregate::Closing& closing, RoundReport& report,
                               LoggedRound& logged) {
  SPARCL_RETURN_IF_ERROR(check_enough(closing));
  SPARCL_RETURN_IF_ERROR(check_finite(closing));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<Collect::Clip> clips, screen_all(closing));
  SPARCL_RETURN_IF_ERROR(failure_);
  RootDesk::Sums sums = desk_->collect_sums(clips);
  closing = std::move(sums.closing);
  SPARCL_RETURN_IF_ERROR(check_enough(closing));
  for (BranchSum& each : sums.sums) {
    report.received_bytes += each.told.bytes;
    SPARCL_RETURN_IF_ERROR(sum_->add(std::move(each)));
  }
  for (const aggregate::Listed& each : closing.listed)
    logged.total_weight += static_cast<double>(each.weight);
  report.total_weight = logged.total_weight;
  if (aggregator_.options().mean == MeanKind::kByWeight && !(logged.total_weight > 0))
    return Status(Code::kInvalidArgument,
                  fmt::format("the weights of all contributions to round {} are 0: a mean by "
                              "weight needs some data",
                              round_));
  ContributionSum::Whole whole = sum_->finish();
  logged.sum = std::move(whole.sum);
  logged.weights = std::move(whole.weights);
  SPARCL_RETURN_IF_ERROR(propose(logged));
  logged.has_sum = true;
  return {};
}

Status AggregationRoot::propose(const LoggedRound& round) {
  return aggregator_.shard()->propose(
      {round.sum.bytes(), round.weights.bytes(), round.total_weight, round.workers},
      aggregator_.options().keep);
}

// The result is in the log and in the weights.
Status AggregationRoot::end_round(aggregate::Closing closing) {
  RoundReport report;
  report.begun = net::monotonic_seconds();
  report.round = round_;
  report.received_bytes = received_bytes_;
  LoggedRound logged{round_, closing.active, 0, false, {}, {}, {}};
  report.failure = sum_up(closing, report, logged);
  report.listed = closing.listed.size();
  report.expelled = closing.expelled.size();
  for (const aggregate::Listed& each : closing.listed) {
    report.late += each.rounds_late > 0 ? 1 : 0;
    if (report.failure.ok()) logged.listed.push_back(each.id);  // else they count in no round
  }
  if (log_) SPARCL_RETURN_IF_ERROR(log_->append(logged));
  SPARCL_FAILPOINT("aggregate.logged");
  if (logged.has_sum) {
    const aggregate::ShardResult result = aggregator_.shard()->keep();
    weights_.add(result.indices, result.values);
    report.changed = result.indices.size();
  }
  note_past(logged);
  ++round_;
  aggregate::AggregatorStats& stats = aggregator_.stats();
  ++stats.rounds;
  stats.listed = logged.listed.size();
  stats.refused = report.listed - stats.listed;
  stats.total_weight = report.total_weight;
  ended_ = std::move(report);
  return {};
}

Result<RoundReport> AggregationRoot::publish_round() {
  SPARCL_RETURN_IF_ERROR(publish_(round_));
  SPARCL_FAILPOINT("aggregate.published");
  RoundReport report = std::move(*ended_);
  ended_.reset();
  report.failure.ok() ? desk_->committed() : desk_->failed(report.failure.message());
  begin_sum();
  take(std::exchange(early_, {}), true);
  const std::uint64_t most = std::max(kLogTimes * weights_.count() * sizeof(float), kMinLogBytes);
  if (log_ && log_->bytes() > most) {  // the round is committed, whatever comes of it
    if (const Status kept = keep(); !kept.ok())
      log_warn("aggregate: the log of rounds stays long: {}", kept.message());
  }
  report.seconds = net::monotonic_seconds() - report.begun;
  return report;
}

}  // namespace sparcl::elastic
