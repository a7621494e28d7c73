#include "tests/random/random_series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>

#include "tests/random/random_flights.hpp"

namespace sparcl::test {
namespace {

constexpr double kTimeoutSeconds = 60;  // beyond it is a hang
constexpr std::size_t kMaxFailures = 5;
constexpr std::size_t kMaxInFlight = 5;
constexpr std::size_t kWithoutObject =
    9;  // the share of calls that have no object: so many to those of one object each
constexpr std::uint64_t kMinCalls = 10;  // of a series
constexpr std::uint64_t kMaxDenseBytes =
    1 << 30;  // beyond it is the index space of a sparse vector, not of an array

template <class List>
auto pick(const List& list, SeededRandom& random) {
  return list[random.below(list.size())];
}

// A communicator's settings, from the seed. All ranks draw the same.
Variables draw_settings(SeededRandom& random) {
  constexpr std::array kVerifies{"touched", "touched", "touched", "full", "off"};
  constexpr std::array kCommits{"auto", "staged", "early"};
  constexpr std::array kFanouts{"auto", "chain", "binary_tree", "binomial_tree"};
  constexpr std::array kFragments{"auto", "65536", "131072", "262144"};
  constexpr std::array kThreads{"1", "1", "1", "2"};
  constexpr std::array kKernels{"auto", "auto", "auto", "ref"};
  constexpr std::array kDeterminisms{"canonical", "canonical", "runs", "fast"};
  constexpr std::array kDense{"auto", "direct", "owner"};
  constexpr std::array kSums{"auto", "auto", "gather", "doubling", "split", "two_level"};
  return {{"SPARCL_VERIFY", pick(kVerifies, random)},
          {"SPARCL_COMMIT", pick(kCommits, random)},
          {"SPARCL_ALGO_BROADCAST", pick(kFanouts, random)},
          {"SPARCL_FRAGMENT_BYTES", pick(kFragments, random)},
          {"SPARCL_THREADS", pick(kThreads, random)},
          {"SPARCL_KERNELS", pick(kKernels, random)},
          {"SPARCL_DETERMINISM", pick(kDeterminisms, random)},
          {"SPARCL_ALGO_ALLREDUCE", pick(kDense, random)},
          {"SPARCL_ALGO_ALLREDUCE_SPARSE", pick(kSums, random)}};
}

std::string setting_of(const Variables& settings, std::string_view name) {
  for (const auto& [each, value] : settings) {
    if (each == name) return value;
  }
  return {};
}

// What stays from call to call: arrays and models that a communicator's ranks broadcast, and what
// they have not sent of sums.
struct Objects {
  Objects(const Scene& scene, SeededRandom& random) {
    for (int i = 0; i < 3; ++i) feedbacks.push_back(std::make_unique<HeldFeedback>(scene, random));
    for (int i = 0; i < 3; ++i)
      arrays.push_back(std::make_unique<HeldArray>(draw_array(random), random));
    for (int i = 0; i < 2; ++i)
      models.push_back(std::make_unique<HeldModel>(static_cast<int>(1 + random.below(4)), random));
  }
  std::vector<std::unique_ptr<HeldArray>> arrays;
  std::vector<std::unique_ptr<HeldModel>> models;
  std::vector<std::unique_ptr<HeldFeedback>> feedbacks;
};

class Series {
 public:
  Series(Meeting& meeting, std::uint64_t seed, std::uint64_t number, RandomOutcome& outcome)
      : random_(mix64(mix64(seed) + number)),
        own_(mix64(random_.next() + static_cast<std::uint64_t>(meeting.rank()))),
        number_(number),
        outcome_(outcome) {
    scene_.rank = meeting.rank();
    scene_.ranks = std::min(static_cast<int>(2 + random_.below(7)), meeting.size());
    calls_ = kMinCalls + random_.below(80);
    settings_ = draw_settings(random_);
    scene_.checks_base = setting_of(settings_, "SPARCL_VERIFY") != "off";
    scene_.is_canonical = setting_of(settings_, "SPARCL_DETERMINISM") == "canonical";
    scene_.sum_algorithm = setting_of(settings_, "SPARCL_ALGO_ALLREDUCE_SPARSE");
  }

  // The number of its calls.
  std::uint64_t run(Meeting& meeting) {
    sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
    config.timeout_s = kTimeoutSeconds;
    const sparclResult_t made = meeting.make(&comm_, scene_.ranks, &config, settings_);
    if (made != sparclSuccess)
      fail(fmt::format("no communicator: {}", sparclGetLastError(nullptr)));
    outcome_.by_ranks[scene_.ranks] += calls_;
    if (comm_ == nullptr) return calls_;
    Objects objects(scene_, random_);
    for (std::uint64_t made_calls = 0; made_calls < calls_ && usable_;)
      made_calls += step(objects, calls_ - made_calls);
    (void)sparclCommDestroy(comm_);
    return calls_;
  }

 private:
  using Flights = std::vector<std::unique_ptr<RandomFlight>>;

  void fail(const std::string& what) {
    if (outcome_.failures.size() < kMaxFailures) {
      std::string settings;
      for (const auto& [name, value] : settings_) settings += fmt::format(" {}={}", name, value);
      outcome_.failures.push_back(fmt::format("series {} ({} ranks,{}), rank {}, call {}: {}",
                                              number_, scene_.ranks, settings, scene_.rank, made_,
                                              what));
    }
  }

  // One blocking call, or several in flight on objects of their own.
  std::uint64_t step(Objects& objects, std::uint64_t most) {
    const double kind = random_.unit();
    const std::size_t wanted = kind < 0.5 ? 1 : 2 + random_.below(kMaxInFlight - 1);
    const bool blocks = kind < 0.35;
    std::vector<std::size_t> order(objects.arrays.size() + objects.models.size() +
                                   objects.feedbacks.size() + kWithoutObject);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
    order.resize(std::min<std::size_t>(wanted, most));
    Flights flights;
    for (const std::size_t object : order) flights.push_back(make_flight(objects, object));
    blocks ? run_blocking(flights) : run_in_flight(flights);
    return order.size();
  }

  std::unique_ptr<RandomFlight> make_flight(Objects& objects, std::size_t object) {
    if (object < objects.arrays.size()) {
      ++outcome_.by_operation[0];
      return random_delta(scene_, *objects.arrays[object], random_);
    }
    object -= objects.arrays.size();
    if (object < objects.models.size()) {
      ++outcome_.by_operation[1];
      return random_update(scene_, *objects.models[object], random_);
    }
    object -= objects.models.size();
    if (object < objects.feedbacks.size()) {
      ++outcome_.by_operation[3];
      return random_top_k(scene_, *objects.feedbacks[object], random_);
    }
    object -= objects.feedbacks.size();
    const std::size_t kind = object % 3;
    ++outcome_.by_operation[kind == 0 ? 2 : 3 + kind];
    return kind == 0   ? random_sparse(scene_, random_)
           : kind == 1 ? random_masked(scene_, random_)
                       : random_sparse_sum(scene_, random_);
  }

  void run_blocking(Flights& flights) {
    for (auto& flight : flights) {
      const sparclResult_t result = flight->start(comm_, nullptr);
      const std::string text = result == sparclSuccess ? "" : sparclGetLastError(comm_);
      sparclReport_t report = SPARCL_REPORT_INITIALIZER;
      (void)sparclCommLastReport(comm_, &report);
      judge(*flight, result, report, text);
    }
  }

  // All are started, maybe but the last, which then blocks while the others move on; they are
  // waited for in this rank's own order.
  void run_in_flight(Flights& flights) {
    const bool last_blocks = random_.chance(0.3);
    std::vector<sparclRequest_t> requests(flights.size(), nullptr);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < flights.size(); ++i) {
      if (last_blocks && i + 1 == flights.size()) {
        Flights last;
        last.push_back(std::move(flights[i]));
        run_blocking(last);
        continue;
      }
      if (const sparclResult_t started = flights[i]->start(comm_, &requests[i]);
          started != sparclSuccess) {
        fail(fmt::format("{} did not start: {} {}", flights[i]->describe(),
                         static_cast<int>(started), sparclGetLastError(comm_)));
      }
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(own_.below(order.size() + 1)), i);
    }
    for (const std::size_t i : order) {
      sparclReport_t report = SPARCL_REPORT_INITIALIZER;
      sparclResult_t result = sparclSuccess;
      int done = 0;
      for (std::uint64_t looks = own_.below(4); looks > 0 && done == 0; --looks)
        result = sparclTest(&requests[i], &done, &report);
      if (done == 0) result = sparclWait(&requests[i], &report);
      judge(*flights[i], result, report, result == sparclSuccess ? "" : sparclGetLastError(comm_));
    }
  }

  void judge(RandomFlight& flight, sparclResult_t result, const sparclReport_t& report,
             const std::string& text) {
    ++made_;
    outcome_.refused += flight.expected() != sparclSuccess ? 1 : 0;
    if (report.bytes_dense < kMaxDenseBytes) outcome_.bytes += report.bytes_dense;
    const std::string what =
        flight.describe();  // before it is judged: then all agree on something new
    if (const std::string wrong = flight.judge(result, report); !wrong.empty())
      fail(fmt::format("{}: {}{}", what, wrong, text));
    sparclResult_t health = sparclSuccess;
    if (result != sparclSuccess && sparclCommGetAsyncError(comm_, &health) == health &&
        health != sparclSuccess)
      usable_ = false;
  }

  SeededRandom random_, own_;  // of all ranks, of this one
  std::uint64_t number_;
  RandomOutcome& outcome_;
  Scene scene_;
  std::uint64_t calls_ = 0, made_ = 0;
  Variables settings_;
  sparclComm_t comm_ = nullptr;
  bool usable_ = true;
};

}  // namespace

RandomOutcome run_random(Meeting& meeting, const RandomPlan& plan) {
  RandomOutcome outcome;
  const bool speaks_for_process = meeting.rank() == 0 || meeting.takes_environment();
  if (speaks_for_process) {
    tell_large_from_small();
    constexpr std::uint64_t kMaxCounted = 100'000;
    outcome.usage.reserve(
        std::min(plan.calls / kMinCalls + 1, kMaxCounted));  // so that this list does not grow
  }
  for (std::uint64_t i = plan.first_series;
       outcome.calls < plan.calls && outcome.series < plan.series; ++i, ++outcome.series) {
    outcome.calls += Series(meeting, plan.seed, i, outcome).run(meeting);
    meeting.meet();  // nobody has a communicator
    if (speaks_for_process) outcome.usage.push_back(process_usage());
    meeting.meet();
    if (!outcome.failures.empty()) break;
  }
  return outcome;
}

bool parse(int argc, char** argv, RandomPlan& plan) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) {
      plan.seed = value;
    } else if (std::strcmp(argv[i], "--calls") == 0) {
      plan.calls = value;
    } else if (std::strcmp(argv[i], "--series") == 0) {
      plan.first_series = value;
      plan.series = 1;
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

bool report(const Meeting& meeting, const RandomPlan& plan, const RandomOutcome& outcome,
            const std::string& replay, double seconds) {
  for (const std::string& failure : outcome.failures) std::printf("WRONG: %s\n", failure.c_str());
  if (!outcome.failures.empty()) {
    std::printf("replay: %s --seed %llu --series %llu\n", replay.c_str(),
                static_cast<unsigned long long>(plan.seed),
                static_cast<unsigned long long>(plan.first_series + outcome.series));
    return false;
  }
  // Few series say nothing of growth: buffers and pools are still finding their sizes.
  constexpr std::size_t kEnoughSeries = 100;
  std::string usage = "too few series to tell whether memory grows", growth;
  if (outcome.usage.size() >= kEnoughSeries) {
    const auto quarters = min_of_quarters(outcome.usage);
    growth = describe_growth(quarters);
    usage = "by quarters: " + describe_usage(quarters);
  }
  if (meeting.rank() == 0) {
    std::string ranks;
    for (int i = 2; i <= 8; ++i) ranks += fmt::format(" {}", outcome.by_ranks[i]);
    fmt::print(
        "{} calls in {} series, seed {}, {:.1f} s: {} delta, {} update, {} sparse, {} top-k, {} "
        "masked, {} sparse sum; {} refused as they must be; by ranks 2 to 8:{}; dense {} MiB\n",
        outcome.calls, outcome.series, plan.seed, seconds, outcome.by_operation[0],
        outcome.by_operation[1], outcome.by_operation[2], outcome.by_operation[3],
        outcome.by_operation[4], outcome.by_operation[5], outcome.refused, ranks,
        outcome.bytes >> 20);
  }
  if (meeting.rank() == 0 || !growth.empty())
    fmt::print("rank {}: {}{}\n", meeting.rank(), growth, usage);
  return growth.empty();
}

}  // namespace sparcl::test
