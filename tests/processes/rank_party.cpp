#include "tests/processes/rank_party.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "src/base/seeded_random.hpp"
#include "tests/support/own_shared_memory.hpp"

namespace sparcl::test {
namespace {

constexpr const char* kSharedMemory = "/dev/shm";
bool owns_shared_memory = false;

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.insert(entry.path().filename().string());
  return names;
}

// Settings that decide which code runs, by the seed; the same on all ranks, as they must be.
std::map<std::string, std::string> settings_of(const PartyPlan& plan) {
  SeededRandom random(mix64(plan.seed ^ 0x5e77));
  constexpr std::array kCommits{"auto", "staged", "early"};
  constexpr std::array kFanouts{"auto", "chain", "binary_tree", "binomial_tree"};
  constexpr std::array kVerifies{"touched", "touched", "full", "off"};
  std::map<std::string, std::string> settings{
      {"SPARCL_COMMIT", kCommits[random.below(kCommits.size())]},
      {"SPARCL_ALGO_BROADCAST", kFanouts[random.below(kFanouts.size())]},
      {"SPARCL_VERIFY", kVerifies[random.below(kVerifies.size())]},
      {"SPARCL_FRAGMENT_BYTES", "65536"},
      {"SPARCL_DEBUG", "error"},
      {"SPARCL_TIMEOUT_S", fmt::format("{}", plan.timeout_s)},
      {"UCX_TLS", plan.lanes}};
  for (const auto& [name, value] : plan.settings) settings[name] = value;
  return settings;
}

}  // namespace

std::string PartyPlan::describe() const {
  std::string text =
      fmt::format("SPARCL_TEST_SEED={}, {} ranks, {} steps, UCX_TLS={}", seed, ranks, steps, lanes);
  for (const auto& [rank, point] : failpoints)
    text += fmt::format(", rank {} at failpoint {}", rank, point);
  for (const auto& [rank, act] : acts) text += fmt::format(", rank {} does {}", rank, act);
  return text;
}

RankParty::RankParty(const PartyPlan& plan) : plan_(plan), shared_before_(names_in(kSharedMemory)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "sparcl_party_XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
}

RankParty::~RankParty() {
  processes_.kill_rest();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

bool RankParty::start_rank(int rank, const std::string& id) {
  ProcessCommand command;
  const auto place = static_cast<std::size_t>(rank);
  if (place < plan_.namespaces.size())
    command.arguments = {"/sbin/ip", "netns", "exec", plan_.namespaces[place]};
  command.arguments.emplace_back(SPARCL_TEST_RANK_PROGRAM);
  for (const auto& [name, value] : settings_of(plan_))
    command.environment.emplace_back(name, value);
  const auto put = [&](const char* name, const std::string& value) {
    command.environment.emplace_back(std::string("SPARCL_TEST_") + name, value);
  };
  put("RANK", std::to_string(rank));
  put("SIZE", std::to_string(plan_.ranks));
  put("SERIES", std::to_string(plan_.seed));
  put("STEPS", std::to_string(plan_.steps));
  put("ID", id);
  if (plan_.shrinks) put("SHRINK", "yes");
  if (const auto found = plan_.failpoints.find(rank); found != plan_.failpoints.end())
    put("FAILPOINT", found->second);
  if (const auto found = plan_.acts.find(rank); found != plan_.acts.end())
    put("ACT", found->second);
  command.environment.emplace_back("TMPDIR", folder_.string());
  if (processes_.start(command) == rank) return true;
  trouble_ = processes_.trouble();
  return false;
}

// Rank 0 makes the id, so that it is served where the ranks are, and a party needs nobody else.
bool RankParty::start() {
  if (!start_rank(0, "make")) return false;
  const ProcessRecord& first = processes_.record(0);
  (void)processes_.run_until([&] { return !first.lines.empty() || first.ended; },
                             plan_.deadline_s / 2);
  const auto line =
      nlohmann::json::parse(first.lines.empty() ? "" : first.lines[0].text, nullptr, false);
  if (line.is_discarded() || !line.contains("id")) {
    trouble_ = fmt::format("rank 0 made no unique id ({}): {}", first.describe_end(), first.errors);
    return false;
  }
  const std::string id = line["id"];
  for (int rank = 1; rank < plan_.ranks; ++rank) {
    if (!start_rank(rank, id)) return false;
  }
  return true;
}

bool RankParty::wait_until_met(double seconds) {
  return processes_.run_until(
      [&] {
        for (int rank = 0; rank < plan_.ranks; ++rank) {
          if (!processes_.record(rank).ended && !story(rank).has_met) return false;
        }
        return true;
      },
      processes_.now_s() + seconds);
}

RankStory RankParty::story(int rank) const { return read_story(processes_.record(rank).lines); }

std::string RankParty::describe() const {
  std::string text = plan_.describe() + "\n";
  for (const auto& [name, value] : settings_of(plan_)) text += fmt::format("{}={} ", name, value);
  for (int rank = 0; rank < processes_.size(); ++rank) {
    const ProcessRecord& record = processes_.record(rank);
    text += fmt::format("\nrank {} (pid {}): {} after {:.3f} s, {} lines", rank, record.pid,
                        record.describe_end(), record.ended_at_s, record.lines.size());
    const std::size_t shown = std::min<std::size_t>(record.lines.size(), 4);
    for (std::size_t i = record.lines.size() - shown; i < record.lines.size(); ++i) {
      text += fmt::format("\n  {:.3f} s {}", record.lines[i].at_s, record.lines[i].text);
    }
    if (!record.errors.empty()) text += "\n  its standard error: " + record.errors.substr(0, 3'000);
  }
  return text;
}

std::string RankParty::left_behind() const {
  if (const std::string left = processes_.left_behind(); !left.empty()) return left;
  for (const std::string& name : names_in(folder_))
    return fmt::format("{} in the folder for temporary files", name);
  if (!owns_shared_memory) return {};
  std::set<std::string> expected = shared_before_;
  // Who is killed, or meets an error that ends a communicator, leaves its flight record for `sparcl
  // status` (docs/guides/faults.md).
  bool all_well = true;
  for (int rank = 0; rank < processes_.size(); ++rank) {
    const RankStory told = story(rank);
    all_well = all_well && told.has_ended && told.error() == nullptr &&
               !processes_.record(rank).died_of(SIGKILL);
  }
  for (int rank = 0; rank < processes_.size() && !all_well; ++rank) {
    expected.insert(fmt::format("sparcl-flight-{}-{}", ::geteuid(), processes_.record(rank).pid));
  }
  for (const std::string& name : names_in(kSharedMemory)) {
    if (!expected.contains(name)) return fmt::format("{}/{}", kSharedMemory, name);
  }
  return {};
}

std::string look_for_files_left() {
  std::string reason = take_own_shared_memory();
  owns_shared_memory = reason.empty();
  return reason;
}

}  // namespace sparcl::test
