#include "src/base/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "src/base/log.hpp"
#include "src/base/near_name.hpp"

extern char** environ;

namespace sparcl {
namespace {

constexpr std::array kRows{
    SettingRow{"DEBUG", SettingType::kChoice, "off|error|warn|info|debug|trace", "warn",
               "Level of the log on standard error."},
    SettingRow{
        "TRANSPORT", SettingType::kChoice, "auto|mpi|ucx|loopback", "auto",
        "Transport that moves bytes between ranks. auto: mpi if MPI starts the ranks, ucx if they "
        "connect by a unique id, loopback for threads of one process."},
    SettingRow{"TIMEOUT_S", SettingType::kSeconds, "", "600",
               "Seconds that a call waits for a live but late peer."},
    SettingRow{"WAIT_WARNING_S", SettingType::kCount, "", "30",
               "Seconds after which a wait for ranks, a publisher or replicas logs a warning that "
               "names the missing peer. Another warning follows each time the wait has lasted "
               "twice as long. 0: no warnings."},
    SettingRow{"VERIFY", SettingType::kChoice, "off|touched|full", "touched",
               "Checks of the base on a replica. off: nothing. touched: the old values at the "
               "changed positions. full: the whole state, before and after."},
    SettingRow{"COMMIT", SettingType::kChoice, "auto|staged|early", "auto",
               "When a replica writes. staged: after all ranks have voted. early: block by block "
               "once checked, restored on an error. auto: early in blocking calls, staged in "
               "non-blocking calls."},
    SettingRow{
        "ENTRY_CODING", SettingType::kChoice, "auto|on|off", "auto",
        "Whether positions of sparse entries (about 1 byte instead of 2), and values of 8, 4 "
        "or 2 bits, are coded before they are sent to another machine. auto: if the link takes "
        "longer than coding."},
    SettingRow{"NODE_WINDOW", SettingType::kChoice, "on|off", "on",
               "Whether ranks on one machine read each other's messages directly in shared memory. "
               "off: messages are copied."},
    SettingRow{
        "PLACE", SettingType::kText, "", "auto",
        "Switches or racks above this process's node, the widest first, with dots between them: "
        "row1.rack7. With a / in front: a file whose first line has these names, on each node its "
        "own. Ranks of an "
        "aggregation have leaders there. auto: what Slurm says (SLURM_TOPOLOGY_ADDR), if its "
        "topology plugin knows switches. none: nodes alone."},
    SettingRow{"NCCL_LIBRARY", SettingType::kText, "", "libnccl.so.2",
               "Library that sparclCommUseNccl loads with dlopen: a name or a path."},
    SettingRow{"CURL_LIBRARY", SettingType::kText, "", "libcurl.so.4",
               "Library that requests to stores in buckets (s3://) load with dlopen: a name or a "
               "path."},
    SettingRow{"S3_PATH_STYLE", SettingType::kChoice, "auto|on|off", "auto",
               "Where a bucket's name stands in requests to S3. on: in the path. off: in the "
               "host's name. auto: in the path if an endpoint is set or the name has dots."},
    SettingRow{"DEVICE_KERNELS", SettingType::kChoice, "on|off", "on",
               "Whether blocking calls on arrays in device memory encode, check, select and gather "
               "there. off: these calls are staged through host memory, except sums over NCCL."},
    SettingRow{"DEVICE_SNAPSHOT", SettingType::kChoice, "on|off", "on",
               "Whether a root or publisher keeps a copy of the last sent state in GPU memory, so "
               "that changes are found there. It needs all tensors on one GPU, and 1/16 of the "
               "GPU's memory free after the copy. off: the host compares."},
    SettingRow{
        "DEVICE_CLASSES", SettingType::kChoice, "auto|on|off", "auto",
        "Whether changes of bf16 and fp16 that a GPU has found are encoded in classes of their old "
        "exponents, by a root there, or by a publisher's host. Updates of a trainer have a quarter "
        "to a third fewer bytes; the GPUs of both sides, or the publisher's host, read whole "
        "arrays once more. auto: a root if SPARCL_LINK_GBIT is 16 or less. A publisher that "
        "reads all tensors uses classes anyway."},
    SettingRow{"LINK_COST", SettingType::kText, "", "measure",
               "Cost of messages, for the choice of algorithms. measure: measured when ranks "
               "connect (some milliseconds). guess: constants of the transport. Else a file with "
               "the figures that SPARCL_DEBUG=info logs, the same on all ranks."},
    SettingRow{"SCRATCH_MIB", SettingType::kCount, "", "4096",
               "MiB that a sparse sum may take beside the caller's arrays. An algorithm that needs "
               "more is not chosen, unless all need more. The smallest value of all ranks counts."},
    SettingRow{"MASTER_ADDR", SettingType::kText, "", "the launcher's",
               "Python package: host of rank 0 for sparcl.Comm.from_env()."},
    SettingRow{"MASTER_PORT", SettingType::kText, "", "the launcher's",
               "Python package: port of rank 0 for sparcl.Comm.from_env()."},
    SettingRow{"MPI_LIBRARY", SettingType::kText, "", "the package's",
               "Python package: path of the libsparcl_mpi.so that sparcl.Comm.from_mpi() loads."},
    SettingRow{"PROGRAM", SettingType::kText, "", "the package's",
               "Python package: path of the program that `python -m sparcl` runs."},
    SettingRow{"STORE_CACHE", SettingType::kText, "", "none",
               "Folder on a local disk where readers of stores keep the updates that they fetch: "
               "a reader that was killed goes on, and several readers of one host fetch each "
               "update once. Bytes are checked each time. none: nothing is kept."},
    SettingRow{"STORE_CACHE_GIB", SettingType::kCount, "", "64",
               "The folder of SPARCL_STORE_CACHE holds at most so many GiB. The updates that were "
               "used longest ago are removed."},
    SettingRow{"STORE_LINK", SettingType::kChoice, "measured|fast|metered", "measured",
               "Whether time or bytes count on the way to a store. measured: time. A publisher "
               "uses the slowest coder (some percent fewer bytes) once the upload time that it "
               "saves exceeds the additional time of coding, by the times of the last updates. "
               "fast: the quickest coder, about a third more bytes. metered: bytes. A publisher "
               "uses the slowest coder, and a reader counts only bytes that SPARCL_STORE_CACHE "
               "does not have."},
    SettingRow{
        "SPILL_FOLDER", SettingType::kText, "", "none",
        "Folder on a local disk. An aggregator keeps contributions there that wait for others, "
        "once they take more than 64 MiB and twice the largest one; parts below 64 KiB stay in "
        "memory. "
        "The programs sparcl and sparcl-gateway keep the tensors there that they publish, follow "
        "or restore, for models that are larger than the memory. none: all is in memory."},
    SettingRow{"DETERMINISM", SettingType::kChoice, "canonical|runs|fast", "canonical",
               "Reproducibility of sparse sums. canonical: across algorithms and transports. runs: "
               "in every run, on all ranks. fast: today the same as runs."},
    SettingRow{"FRAGMENT_BYTES", SettingType::kChoice, "auto|65536|131072|262144", "auto",
               "Unit of sending and forwarding, in bytes. auto: by the cost model."},
    SettingRow{"LINK_GBIT", SettingType::kCount, "", "0",
               "Gbit/s of a link between two ranks. From it a broadcast's root knows when a block "
               "arrives sooner whole than change by change. 0: estimated as 40 if all ranks share "
               "a host, else 10."},
    SettingRow{"THREADS", SettingType::kCount, "", "0",
               "Threads that encode and apply, for a rank or a program. 0: one for a rank; as many "
               "as usable cores for a program."},
    SettingRow{"FLIGHT", SettingType::kChoice, "off|on", "on",
               "Whether the last operations of each communicator are recorded, for the log after a "
               "failure and for `sparcl status PID`."},
    SettingRow{"FLIGHT_SIGNAL", SettingType::kChoice, "none|HUP|QUIT|USR1|USR2", "none",
               "Signal on which a process writes its flight record to standard error. A handler "
               "that is set already is called after it."},
    SettingRow{"KERNELS", SettingType::kChoice, "auto|ref|cpu", "auto",
               "Kernel bodies. auto: SIMD for the best instruction set of this machine."},
    SettingRow{
        "INTERFACE", SettingType::kText, "", "auto",
        "Network interfaces at which ranks without MPI may reach this process: names or their "
        "beginnings, as in eth,ib0; ^docker excludes. auto: all except loopback, which is used if "
        "there is no other. UCX uses the same interfaces, unless UCX_NET_DEVICES is set."},
    SettingRow{"HEARTBEAT", SettingType::kChoice, "on|off", "on",
               "Whether ranks ping the ranks that they wait for, with one thread and one UDP port "
               "per process. off: only deadlines find dead ranks."},
    SettingRow{"HEARTBEAT_MS", SettingType::kCount, "", "100",
               "Milliseconds between two pings of a rank that is waited for: at least 1, at most "
               "SPARCL_LIVENESS_S. SPARCL_HEARTBEAT=off turns heartbeats off."},
    SettingRow{"FAN_OUT", SettingType::kCount, "", "0",
               "Replicas to which a publisher, and each replica, sends updates. 0: the publisher "
               "sends to one of each 32 replicas, and these form chains."},
    SettingRow{"PEER_BYTES", SettingType::kCount, "", "0",
               "Bytes of memory that peers may cause in a publisher, or in a replica that passes "
               "updates on, beside its own updates. 0: twice the model's bytes, at least 64 MiB."},
    SettingRow{
        "SECRET", SettingType::kText, "", "none",
        "File with the secret of a publisher (role publish), a replica (role replicate) or an "
        "observer (role observe, for `sparcl status`), where no option names one. Connections of "
        "the replication service are then encrypted, and both sides prove who they are."},
    SettingRow{"CERTIFICATES", SettingType::kText, "", "none",
               "Folder with the certificates of a publisher, a replica or an observer (`ca.crt`, "
               "`tls.crt`, "
               "`tls.key`), where no option names one. They take the place of a secret."},
    SettingRow{"ENGINE_API_KEY", SettingType::kSecret, "", "none",
               "API key of inference engines, for `sparcl subscribe --notify`: requests carry it "
               "as a bearer token. It is never shown."},
    SettingRow{"SWEEP_S", SettingType::kCount, "", "300",
               "Seconds between two checks of a replica's whole state. Damaged blocks are found "
               "and fetched again. 0: no checks."},
    SettingRow{"REPLICA_NAME", SettingType::kText, "", "replica",
               "Name of this process's replicas in the publisher's status and metrics. Name and "
               "host should stay the same when the process is restarted."},
    SettingRow{"RELAY", SettingType::kChoice, "on|updates|off", "on",
               "Whether a replica passes the publisher's updates on to other replicas, at a port "
               "of its own. on: it also gives all bytes of the version that it holds to replicas "
               "that have none. updates: it neither gives nor takes these."},
    SettingRow{"SHARED_MEMORY", SettingType::kChoice, "on|off", "on",
               "Whether a publisher and replicas of one machine, or replicas of another machine, "
               "share the bytes of updates as memory."},
    SettingRow{"LIVENESS_S", SettingType::kSeconds, "", "5",
               "Seconds without an answer after which a rank that is waited for counts as stopped "
               "or cut off. It may be found up to two pings earlier."},
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

std::string meant(std::string_view name, std::span<const SettingRow> more) {
  for (const std::span<const SettingRow> rows : {std::span<const SettingRow>(kRows), more}) {
    for (const SettingRow& row : rows) {
      if (is_near_name(name, row.name)) return fmt::format(": did you mean SPARCL_{}?", row.name);
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

std::string shown_value(const SettingRow& row) {
  const SettingValue value = setting(row);
  return row.type == SettingType::kSecret && value.source != "default" ? "(set)" : value.text;
}

Result<double> setting_number(std::string_view name) {
  const std::string text = setting(name).text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const SettingRow& row = row_of(name);
  const bool parses =
      error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  const bool in_range = row.type == SettingType::kSeconds ? value > 0 && value <= kMaxSeconds
                                                          : value >= 0;  // 0 is no deadline
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
  if (row.type == SettingType::kText || row.type == SettingType::kSecret) return "a text";
  return row.type == SettingType::kSeconds
             ? "a positive number of seconds, at most 1e8 (three years)"
             : "a number that is not negative";
}

Status check_setting(const SettingRow& row) {
  if (row.type == SettingType::kText || row.type == SettingType::kSecret)
    return {};  // the user of the setting checks it
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
    // The adapters of the Python package read SPARCL_ENGINES_... (docs/guides/engines.md).
    const bool is_elsewhere =
        name == "TRACE" || name.starts_with("TEST_") || name.starts_with("ENGINES_");
    if (!is_elsewhere && !has(kRows, name) && !has(more, name))
      log_warn("SPARCL_{} is set, but no setting has this name{}", name, meant(name, more));
  }
}

}  // namespace sparcl
