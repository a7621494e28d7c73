// One rank: meets the others (rank_start.hpp) and makes a seeded series of collectives, checking
// every result by itself. Prints one JSON line an event. Environment, all with the prefix
// SPARCL_TEST_, besides that of the meeting:
//   SERIES (the seed), STEPS
//   ACT     "what:step", what this rank does otherwise: operation, count, datatype, root (instead
//           of the step's), abort, destroy, exit; late: it comes half a second after the others;
//           stop: it sleeps until it is told to go on; hold: it computes until SIGUSR2; rest: so
//           it does after a shrink
//   SHRINK  "yes": after an error it goes on, by another series, with the ranks that live
//   EXITS   "yes": after an error it ends at once, and leaves its communicator as it is
// Exit codes: 0 all that was held was wholly old or new; 3 not; 2 wrong usage.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tests/processes/flight.hpp"
#include "tests/processes/rank_start.hpp"

namespace sparcl::test {
namespace {

using nlohmann::json;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say(json line) {
  line["now"] = seconds_now();  // of a clock that all processes of the machine share
  std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (std::size_t done = 0;
       done < text.size();) {  // by itself in one piece: no buffer that a kill would take along
    const ssize_t count = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (count <= 0) std::_Exit(2);
    done += static_cast<std::size_t>(count);
  }
}

struct Act {
  std::string what;
  int step = -1;

  bool is_at(int number, const char* name) const { return number == step && what == name; }
  Deviation deviation_at(int number) const {
    if (number != step) return Deviation::kNone;
    if (what == "operation") return Deviation::kOperation;
    if (what == "count") return Deviation::kCount;
    if (what == "datatype") return Deviation::kDatatype;
    return what == "root" ? Deviation::kRoot : Deviation::kNone;
  }
};

class RankProgram {
 public:
  RankProgram()
      : rank_(start_.rank()),
        ranks_(start_.size()),
        series_(std::strtoull(variable("SERIES", "1").c_str(), nullptr, 10)),
        shrinks_(variable("SHRINK", "no") == "yes"),
        exits_(variable("EXITS", "no") == "yes"),
        residuals_(series_, std::max(ranks_, 1)) {
    held_.emplace(series_, residuals_);
    const std::string act = variable("ACT", "");
    if (const std::size_t colon = act.find(':'); colon != std::string::npos)
      act_ = {act.substr(0, colon), std::atoi(act.c_str() + colon + 1)};
    sigemptyset(&go_on_);
    sigaddset(&go_on_, SIGUSR2);
    if (act_.what == "hold" || act_.what == "rest") sigprocmask(SIG_BLOCK, &go_on_, nullptr);
  }

  int run() {
    if (rank_ < 0 || rank_ >= ranks_) return 2;
    if (!meet()) return 0;
    run_series();
    while (poisoned_) {
      check_poisoned();
      if (exits_) std::_Exit(wrong_ ? 3 : 0);
      if (!shrinks_ || !shrink()) break;
      run_series();
    }
    end();
    return wrong_ ? 3 : 0;
  }

 private:
  bool meet() {
    const double begin = seconds_now();
    const sparclResult_t result = start_.meet(&comm_, [](const std::string& id) {
      say({{"event", "id"}, {"id", id}});
    });
    say({{"event", "met"},
         {"code", result},
         {"error", sparclGetLastError(nullptr)},
         {"seconds", seconds_now() - begin},
         {"pid", ::getpid()}});
    return result == sparclSuccess;
  }

  void run_series() {
    const std::vector<Step> steps =
        make_series(series_, ranks_, std::atoi(variable("STEPS", "8").c_str()));
    for (std::size_t first = 0; first < steps.size() && !over_;) {
      const std::size_t count = together(steps, first);
      run_steps(std::span(steps).subspan(first, count), static_cast<int>(first));
      first += count;
    }
  }

  // What the survivors hold may differ by the call that failed: they begin anew. What they have not
  // sent goes on.
  bool shrink() {
    const double begin = seconds_now();
    sparclComm_t survivors = nullptr;
    const sparclResult_t result = sparclCommShrink(comm_, &survivors);
    const std::string error = result == sparclSuccess ? "" : sparclGetLastError(comm_);
    const auto tell = [&] {
      say({{"event", "shrink"},
           {"code", result},
           {"error", error},
           {"rank", rank_},
           {"ranks", ranks_},
           {"seconds", seconds_now() - begin}});
    };
    if (result == sparclSuccess) {
      flights_.clear();
      (void)sparclCommDestroy(std::exchange(comm_, survivors));
      (void)sparclCommUserRank(comm_, &rank_);
      (void)sparclCommCount(comm_, &ranks_);
      ++epoch_;
      series_ += 1000;
      held_.emplace(series_, residuals_);
      const bool rests = std::exchange(act_, {}).what == "rest";
      poisoned_ = residuals_.meet_again(comm_, rank_, ranks_);
      over_ = poisoned_ != sparclSuccess;
      tell();
      if (int taken = 0; rests) sigwait(&go_on_, &taken);
    } else {
      tell();
    }
    return result == sparclSuccess;
  }

  // Non-blocking neighbours of different kinds are in flight together; what this rank does
  // otherwise it does alone.
  std::size_t together(const std::vector<Step>& steps, std::size_t first) const {
    std::size_t count = 1;
    const auto is_first_of_kind = [&](std::size_t at) {
      for (std::size_t i = first; i < at; ++i) {
        if (steps[i].kind == steps[at].kind) return false;
      }
      return true;
    };
    const auto is_alone = [&](std::size_t at) {
      return !steps[at].nonblocking || act_.deviation_at(static_cast<int>(at)) != Deviation::kNone;
    };
    if (is_alone(first)) return 1;
    while (first + count < steps.size() && !is_alone(first + count) &&
           is_first_of_kind(first + count))
      ++count;
    return count;
  }

  void run_steps(std::span<const Step> steps, int first) {
    std::vector<std::unique_ptr<Flight>>& flights = flights_;
    flights.clear();
    std::vector<sparclRequest_t> requests(steps.size(), nullptr);
    std::vector<std::pair<sparclResult_t, std::string>> starts;
    const double begin = seconds_now();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const int number = first + static_cast<int>(i);
      if (leaves_at(number)) {
        if (!act_.is_at(number, "abort")) return;
        break;  // what is in flight has ended by the abort
      }
      say({{"event", "begin"},
           {"step", number},
           {"kind", name_of(steps[i].kind)},
           {"root", steps[i].root}});
      flights.push_back(make_flight(steps[i], rank_, ranks_, *held_, act_.deviation_at(number)));
      if (!steps[i].nonblocking) {
        const sparclResult_t result = flights[i]->call(comm_, nullptr);
        sparclReport_t report = SPARCL_REPORT_INITIALIZER;
        const std::string error = result == sparclSuccess ? "" : sparclGetLastError(comm_);
        (void)sparclCommLastReport(comm_, &report);
        tell(number, *flights[i], result, error, report, begin);
        return;
      }
      const sparclResult_t started = flights[i]->call(comm_, &requests[i]);
      starts.emplace_back(started, started == sparclSuccess ? "" : sparclGetLastError(comm_));
    }
    for (std::size_t i = 0; i < flights.size(); ++i) {
      sparclReport_t report = SPARCL_REPORT_INITIALIZER;
      const sparclResult_t waited = sparclWait(&requests[i], &report);
      const sparclResult_t result = starts[i].first == sparclSuccess ? waited : starts[i].first;
      const std::string error = starts[i].first != sparclSuccess ? starts[i].second
                                : result == sparclSuccess        ? ""
                                                                 : sparclGetLastError(comm_);
      tell(first + static_cast<int>(i), *flights[i], result, error, report, begin);
    }
  }

  // True: no more steps. Requests that are in flight end with the communicator.
  bool leaves_at(int number) {
    if (act_.is_at(number, "exit")) std::_Exit(0);
    if (act_.is_at(number, "late")) ::usleep(500'000);
    if (act_.is_at(number, "stop")) ::raise(SIGSTOP);
    if (int taken = 0; act_.is_at(number, "hold")) sigwait(&go_on_, &taken);
    if (act_.is_at(number, "destroy")) return over_ = true;
    if (!act_.is_at(number, "abort")) return false;
    const sparclResult_t result = sparclCommAbort(comm_);
    say({{"event", "aborted"}, {"code", result}});
    poisoned_ = result == sparclSuccess ? sparclRemoteError : result;
    return over_ = true;
  }

  void tell(int number, Flight& flight, sparclResult_t result, const std::string& error,
            const sparclReport_t& report, double begin) {
    const double seconds = seconds_now() - begin;
    const std::uint64_t hash = flight.hash();
    const Holds holds = flight.judge(result);
    const bool is_right = holds == Holds::kBoth ||
                          (report.applied != 0 ? holds == Holds::kNew : holds == Holds::kOld);
    const bool is_told = (result == sparclSuccess) == (report.applied != 0) &&
                         (result == sparclSuccess || !error.empty());
    wrong_ = wrong_ || !is_right || !is_told;
    if (poisons(result)) {
      poisoned_ = result;
      over_ = true;
    }
    say({{"event", "step"},
         {"step", number},
         {"epoch", epoch_},
         {"code", result},
         {"error", error},
         {"applied", report.applied},
         {"holds", name_of(holds)},
         {"hash", fmt::format("{:016x}", hash)},
         {"right", is_right && is_told},
         {"seconds", seconds}});
  }

  // Each later call gives the same error at once, and needs nobody.
  void check_poisoned() {
    const double begin = seconds_now();
    const Step step{StepKind::kDelta, 0, false, 0.1, 1};
    const std::unique_ptr<Flight> flight =
        make_flight(step, rank_, ranks_, *held_, Deviation::kNone);
    const sparclResult_t again = flight->call(comm_, nullptr);
    sparclResult_t known = sparclSuccess;
    (void)sparclCommGetAsyncError(comm_, &known);
    int failed = -2;
    (void)sparclCommGetFailedRank(comm_, &failed);
    const sparclResult_t aborted = sparclCommAbort(comm_);
    const bool is_right = again == poisoned_ && known == poisoned_ && aborted == sparclSuccess;
    wrong_ = wrong_ || !is_right;
    say({{"event", "poisoned"},
         {"code", again},
         {"async", known},
         {"failed", failed},
         {"right", is_right},
         {"seconds", seconds_now() - begin}});
  }

  void end() {
    const double begin = seconds_now();
    const sparclResult_t result = sparclCommDestroy(comm_);
    say({{"event", "end"}, {"code", result}, {"seconds", seconds_now() - begin}});
    start_.end(poisoned_ == sparclSuccess && epoch_ == 0);
  }

  RankStart start_;
  int rank_, ranks_;
  std::uint64_t series_;
  bool shrinks_, exits_;
  int epoch_ = 0;  // how often it has shrunk
  Act act_;
  sigset_t go_on_;
  Residuals residuals_;
  std::optional<Holdings> held_;
  std::vector<std::unique_ptr<Flight>>
      flights_;  // of the last steps: their buffers outlive the communicator
  sparclComm_t comm_ = nullptr;
  bool over_ = false;
  bool wrong_ = false;
  sparclResult_t poisoned_ = sparclSuccess;
};

}  // namespace

std::string variable(const char* name, const char* fallback) {
  const char* text = std::getenv((std::string("SPARCL_TEST_") + name).c_str());
  return text != nullptr ? text : fallback;
}

}  // namespace sparcl::test

int main() { return sparcl::test::RankProgram().run(); }
