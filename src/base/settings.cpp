#include "src/base/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "src/base/log.hpp"

extern char** environ;

namespace sparcl {
namespace {

constexpr std::array kRows{
    SettingRow{"DEBUG", SettingType::kChoice, "off|error|warn|info|debug|trace", "warn",
               "what is logged to standard error"},
    SettingRow{"TRANSPORT", SettingType::kChoice, "auto|mpi|ucx|loopback", "auto",
               "what moves the bytes between ranks; auto: mpi where MPI starts them, ucx where a "
               "unique id does, loopback between the threads of one process"},
    SettingRow{"TIMEOUT_S", SettingType::kSeconds, "", "600",
               "seconds that a call waits for a peer that lives but is late"},
    SettingRow{
        "WAIT_WARNING_S", SettingType::kCount, "", "30",
        "seconds that a wait for other ranks, a publisher or replicas lasts before a warning says "
        "who is missing; then a warning each time the wait has lasted twice as long; 0: none"},
    SettingRow{"VERIFY", SettingType::kChoice, "off|touched|full", "touched",
               "what a replica checks of its base: nothing, the old values at the changed "
               "positions, or the whole state before and after"},
    SettingRow{"COMMIT", SettingType::kChoice, "auto|staged|early", "auto",
               "when a replica writes: staged, after all ranks have voted; early, block by block "
               "as checked, taken back on an error; auto: early in blocking calls, whose caller "
               "waits, staged in the others"},
    SettingRow{"ENTRY_CODING", SettingType::kChoice, "auto|on|off", "auto",
               "whether the places of sparse entries are coded before they are sent to another "
               "machine (about 1 byte each instead of 2), and values in 8 bits with them; auto: "
               "where links take longer than coding does"},
    SettingRow{"NODE_WINDOW", SettingType::kChoice, "on|off", "on",
               "whether ranks on one machine read each other's messages where they lie, in shared "
               "memory; off: all are copied"},
    SettingRow{"NCCL_LIBRARY", SettingType::kText, "", "libnccl.so.2",
               "the library that sparclCommUseNccl loads, as dlopen takes it: a name, or a path"},
    SettingRow{"DEVICE_KERNELS", SettingType::kChoice, "on|off", "on",
               "whether blocking calls on arrays in device memory (broadcasts of changes, top-k "
               "and masked sums) code, check, select and gather there; off: all goes by way of the "
               "host, but what a rank sums over NCCL"},
    SettingRow{"DEVICE_SNAPSHOT", SettingType::kChoice, "on|off", "on",
               "whether a root or publisher whose tensors are all in one GPU's memory keeps a copy "
               "there of what it sent last (the model once more, where 1/16 of the GPU's memory "
               "stays free), so that what changed is found there and nothing else crosses; off: "
               "all is compared on the host"},
    SettingRow{"DEVICE_CLASSES", SettingType::kChoice, "auto|on|off", "auto",
               "whether a root whose arrays are in a GPU's memory codes changes of bf16 and fp16 "
               "in classes of their old exponents: a quarter to a third fewer bytes of a trainer's "
               "steps, for which both ends' GPUs read whole arrays once more; auto: where "
               "SPARCL_LINK_GBIT says links of 2 Gbit/s or less"},
    SettingRow{"LINK_COST", SettingType::kText, "", "measure",
               "what messages cost, for the choice of algorithms: measured as ranks meet (some "
               "milliseconds); guess: by the transport; else a file with what SPARCL_DEBUG=info "
               "has told, the same on all ranks"},
    SettingRow{"SCRATCH_MIB", SettingType::kCount, "", "4096",
               "MiB that a sparse sum may take beside the caller's arrays: an algorithm that would "
               "take more is not chosen, unless all would; the least of all ranks counts"},
    SettingRow{"DETERMINISM", SettingType::kChoice, "canonical|runs|fast", "canonical",
               "which sparse sums have the same bits: whatever the algorithm and the transport; in "
               "each run and on all ranks; fast: as runs, so far"},
    SettingRow{"FRAGMENT_BYTES", SettingType::kChoice, "auto|65536|131072|262144", "auto",
               "unit of sending and forwarding, in bytes; auto: by the cost model"},
    SettingRow{"LINK_GBIT", SettingType::kCount, "", "0",
               "Gbit/s of a link between two ranks: a broadcast's root then knows when blocks are "
               "through sooner whole than change by change; 0: a guess (40 where all ranks share a "
               "host, else 10)"},
    SettingRow{"THREADS", SettingType::kCount, "", "0",
               "threads that encode and apply, each its part: of a rank, or of a program; 0: of a "
               "rank one, of a program as many as it may use cores"},
    SettingRow{"FLIGHT", SettingType::kChoice, "off|on", "on",
               "whether each communicator's last operations are recorded: for the log when it "
               "fails, and for `sparcl status PID`"},
    SettingRow{"FLIGHT_SIGNAL", SettingType::kChoice, "none|HUP|QUIT|USR1|USR2", "none",
               "signal on which a process writes its flight record to standard error; a handler "
               "that is there already is called after it"},
    SettingRow{"KERNELS", SettingType::kChoice, "auto|ref|cpu", "auto",
               "kernel bodies; auto: SIMD for the best instruction set of this machine"},
    SettingRow{"INTERFACE", SettingType::kText, "", "auto",
               "network interfaces at which ranks without MPI may reach this process: names or how "
               "they begin, as in eth,ib0; ^docker: all but these; auto: all but loopback, which "
               "is taken where there is nothing else. UCX's data takes them, too (TCP, and their "
               "RDMA devices), unless UCX_NET_DEVICES is set"},
    SettingRow{"HEARTBEAT", SettingType::kChoice, "on|off", "on",
               "whether ranks ping those that they wait for, by one thread and one UDP port a "
               "process: off, only deadlines tell of deaths"},
    SettingRow{"HEARTBEAT_MS", SettingType::kCount, "", "100",
               "milliseconds between two pings of a rank that is waited for, 1 at least and not "
               "more than SPARCL_LIVENESS_S (to turn heartbeats off: SPARCL_HEARTBEAT=off)"},
    SettingRow{"FAN_OUT", SettingType::kCount, "", "0",
               "replicas that a publisher, and each replica, sends updates to; 0: the publisher to "
               "one of each 32, and these in chains"},
    SettingRow{
        "PEER_BYTES", SettingType::kCount, "", "0",
        "bytes of memory that peers may cause in a publisher, or in a replica that passes updates "
        "on, beside what it keeps for all of them; 0: twice the model's bytes, at least 64 MiB"},
    SettingRow{"SWEEP_S", SettingType::kCount, "", "300",
               "seconds between two looks of a replica at all that it holds: damaged memory is "
               "found, and the blocks that are damaged are asked for; 0: it never looks"},
    SettingRow{"REPLICA_NAME", SettingType::kText, "", "replica",
               "what the publisher's status and metrics call the replicas of this process; "
               "together with the host it should stay the same when the process is started anew"},
    SettingRow{"RELAY", SettingType::kChoice, "on|updates|off", "on",
               "whether a replica passes the publisher's updates on to others, at a port of its "
               "own; updates means the same as on"},
    SettingRow{"SHARED_MEMORY", SettingType::kChoice, "on|off", "on",
               "whether a publisher and replicas of one machine, or those of another, share the "
               "bytes of updates as memory"},
    SettingRow{"LIVENESS_S", SettingType::kSeconds, "", "5",
               "seconds without an answer within which a rank that is waited for counts as stopped "
               "or cut off: up to two pings earlier"},
};

const SettingRow& row_of(std::string_view name) {
  for (const SettingRow& row : kRows) {
    if (row.name == name) return row;
  }
  std::abort();  // a name that is not in the table is a bug of the caller
}

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const std::size_t bar = choices.find('|');
    if (choices.substr(0, bar) == text) return true;
    choices.remove_prefix(bar == std::string_view::npos ? choices.size() : bar + 1);
  }
  return false;
}

// Levenshtein's distance: the fewest letters put in, left out or replaced that make one of the
// other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

std::string meant(std::string_view name, std::span<const SettingRow> more) {
  for (const std::span<const SettingRow> rows : {std::span<const SettingRow>(kRows), more}) {
    for (const SettingRow& row : rows) {
      const bool begun = name.size() > 2 && row.name.starts_with(name);
      if (begun || edit_distance(name, row.name) <= 2)
        return fmt::format(": did you mean SPARCL_{}?", row.name);
    }
  }
  return ": `sparcl info` lists them";
}

Status refuse(const SettingRow& row, const std::string& text) {
  return Status(Code::kInvalidArgument,
                fmt::format("SPARCL_{}={}: expected {}", row.name, text, accepted_values(row)));
}

}  // namespace

std::span<const SettingRow> setting_rows() { return kRows; }

SettingValue setting(std::string_view name) { return setting(row_of(name)); }

SettingValue setting(const SettingRow& row) {
  const std::string variable = fmt::format("SPARCL_{}", row.name);
  if (const char* text = std::getenv(variable.c_str()); text != nullptr && *text != '\0')
    return {text, "environment"};
  return {std::string(row.fallback), "default"};
}

Result<double> setting_number(std::string_view name) {
  const std::string text = setting(name).text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const SettingRow& row = row_of(name);
  const bool parses =
      error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  const bool in_range = row.type == SettingType::kSeconds
                            ? value > 0 && value <= kMaxSeconds
                            : value >= 0;  // no time at all is no deadline
  if (parses && in_range) return value;
  return refuse(row, text);
}

Result<std::string> setting_choice(std::string_view name) { return setting_choice(row_of(name)); }

Result<std::string> setting_choice(const SettingRow& row) {
  std::string text = setting(row).text;
  if (is_choice(row.choices, text)) return text;
  return refuse(row, text);
}

std::string accepted_values(const SettingRow& row) {
  if (row.type == SettingType::kChoice) return fmt::format("one of {}", row.choices);
  if (row.type == SettingType::kText) return "a text";
  return row.type == SettingType::kSeconds
             ? "a positive number of seconds, at most 1e8 (three years)"
             : "a number that is not negative";
}

Status check_setting(const SettingRow& row) {
  if (row.type == SettingType::kText) return {};  // whoever uses it knows more
  return row.type == SettingType::kChoice ? setting_choice(row).status()
                                          : setting_number(row.name).status();
}

void warn_of_unknown_settings(std::span<const SettingRow> more) {
  static std::atomic_flag is_done;
  if (is_done.test_and_set()) return;
  const auto has = [](std::span<const SettingRow> rows, std::string_view name) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const SettingRow& row) { return row.name == name; });
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    if (!text.starts_with("SPARCL_")) continue;
    const std::string_view name = text.substr(7, text.find('=') - 7);
    const bool is_of_tests = name == "TRACE" || name.starts_with("TEST_");
    if (!is_of_tests && !has(kRows, name) && !has(more, name))
      log_warn("SPARCL_{} is set, but no setting has this name{}", name, meant(name, more));
  }
}

}  // namespace sparcl
