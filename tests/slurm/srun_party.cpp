#include "tests/slurm/srun_party.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace sparcl::test {
namespace {

constexpr int kJobMinutes = 5;  // then Slurm itself ends what a killed test left

std::string read_whole(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

std::string SrunPlan::describe() const {
  std::string text = fmt::format("SPARCL_TEST_SEED={}, {} ranks on {} nodes, {} steps, {}", seed,
                                 ranks, nodes, steps, starter);
  for (const auto& [name, value] : settings) text += fmt::format(", {}={}", name, value);
  for (const auto& [rank, act] : acts) text += fmt::format(", rank {} does {}", rank, act);
  if (victim >= 0) text += fmt::format(", victim {} {}", victim, failpoint);
  return text;
}

SrunParty::SrunParty(const SrunPlan& plan) : plan_(plan) {
  std::string pattern = (std::filesystem::temp_directory_path() / "sparcl_srun_XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
}

// A stopped process cannot end by Slurm's first signal.
SrunParty::~SrunParty() {
  for (int rank = 0; rank < plan_.ranks; ++rank) signal(rank, SIGKILL);
  (void)processes_.finish(processes_.now_s() + 10);
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

bool SrunParty::start() {
  if (folder_.empty()) return false;
  const auto file = [&](const char* kind) {
    return fmt::format("{}/%t.{}", folder_.string(), kind);
  };
  // Failpoints are armed before main(); they and acts are for one rank each.
  constexpr const char* kArmed = R"(for what in FAILPOINT ACT; do
    eval "its=\${SPARCL_TEST_${what}_$SLURM_PROCID-}"
    [ -z "$its" ] || export "SPARCL_TEST_$what=$its"
  done
  exec "$0")";
  ProcessCommand command;
  command.arguments = {"/usr/bin/env",
                       "srun",
                       plan_.starter,
                       fmt::format("--ntasks={}", plan_.ranks),
                       fmt::format("--nodes={}", plan_.nodes),
                       "--distribution=cyclic",
                       "--kill-on-bad-exit=0",
                       "--input=none",
                       fmt::format("--time={}", kJobMinutes),
                       "--output=" + file("out"),
                       "--error=" + file("err"),
                       "/bin/sh",
                       "-c",
                       kArmed,
                       plan_.program};
  command.environment = plan_.settings;
  const auto put = [&](const std::string& name, const std::string& value) {
    command.environment.emplace_back("SPARCL_TEST_" + name, value);
  };
  put("SERIES", std::to_string(plan_.seed));
  put("STEPS", std::to_string(plan_.steps));
  put("ID", "folder:" + folder_.string());
  if (!plan_.failpoint.empty()) put(fmt::format("FAILPOINT_{}", plan_.victim), plan_.failpoint);
  if (plan_.exits) put("EXITS", "yes");
  for (const auto& [rank, act] : plan_.acts) put(fmt::format("ACT_{}", rank), act);
  return processes_.start(command) == 0;
}

double SrunParty::now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool SrunParty::run_until(const std::function<bool()>& enough) {
  constexpr double kPeriod =
      0.02;  // reading what all ranks wrote takes a core's time that they need
  double next = 0;
  bool is_enough = false;
  const auto over = [&] {
    if (now_s() < next) return false;
    next = now_s() + kPeriod;
    is_enough = enough();
    return is_enough || processes_.record(0).ended;
  };
  (void)processes_.run_until(over, plan_.deadline_s);
  return is_enough || enough();
}

bool SrunParty::all_have_done(std::size_t steps) const {
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    const RankStory told = story(rank);
    if (!told.has_met || told.steps.size() < steps) return false;
  }
  return true;
}

bool SrunParty::was_ended_by_slurm() const {
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    if (errors(rank).find("CANCELLED") != std::string::npos) return true;
  }
  return processes_.record(0).errors.find("Job step aborted") != std::string::npos;
}

bool SrunParty::is_kept_by_mpi(int rank) const {
  return !story(rank).has_ended &&
         errors(rank).find("mca_btl_tcp_frag_send: writev failed") != std::string::npos;
}

bool SrunParty::finish() {
  constexpr double kMaxEndIn = 15;
  const auto ended = [&] { return processes_.record(0).ended; };
  if (processes_.run_until(ended, std::min(processes_.now_s() + kMaxEndIn, plan_.deadline_s)))
    return true;
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    if (is_kept_by_mpi(rank)) return true;
  }
  return processes_.run_until(ended, plan_.deadline_s);
}

void SrunParty::signal(int rank, int number) const {
  if (const int pid = story(rank).pid; pid > 0 && is_alive(rank)) ::kill(pid, number);
}

// A pid may be another process's by now: that of a rank has the rank's program.
bool SrunParty::is_alive(int rank) const {
  const int pid = story(rank).pid;
  std::error_code error;
  return pid > 0 &&
         std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), error) == plan_.program;
}

std::string SrunParty::text_of(const char* kind, int rank) const {
  return read_whole(folder_ / fmt::format("{}.{}", rank, kind));
}

std::string SrunParty::errors(int rank) const { return text_of("err", rank); }

std::vector<ProcessLine> SrunParty::lines(int rank) const {
  std::vector<ProcessLine> all;
  std::istringstream text(text_of("out", rank));
  for (std::string line; std::getline(text, line);) {
    const auto told = nlohmann::json::parse(line, nullptr, false);
    if (told.is_object()) all.push_back({told.value("now", 0.0), line});
  }
  return all;
}

RankStory SrunParty::story(int rank) const { return read_story(lines(rank)); }

std::string SrunParty::describe() const {
  const ProcessRecord& srun = processes_.record(0);
  std::string text =
      fmt::format("{}\nsrun: {}, {}", plan_.describe(), srun.describe_end(), srun.errors);
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    const std::vector<ProcessLine> all = lines(rank);
    text += fmt::format("\nrank {}: {} lines", rank, all.size());
    for (std::size_t i = all.size() - std::min<std::size_t>(all.size(), 4); i < all.size(); ++i) {
      text += fmt::format("\n  {:.3f} {}", all[i].at_s, all[i].text);
    }
    const std::string said = errors(rank);  // an abort stands at its end
    text += fmt::format("\n  its standard error: {}",
                        said.substr(said.size() - std::min<std::size_t>(said.size(), 4'000)));
  }
  return text;
}

}  // namespace sparcl::test
