// Rounds of an elastic aggregation between processes of one machine, through the C interface:
//   bench_elastic [--workers N] [--branches N] [--elements N] [--density D] [--rounds N] [--wire
//   0..4]
// Aggregators are processes of their own: the root, and the branches below it; the workers are
// threads of another one, and take the branches in turns of neighbours. A round's time is from the
// first worker's call of contribute until the last worker has the next version. Prints one line of
// JSON: medians, the bytes that reach the root in a round, and its largest memory.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <sparcl/sparcl.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Options {
  std::size_t workers = 8, branches = 0, elements = 16 << 20, rounds = 7;
  double density = 0.01;
  int wire = 0;
};

// What the aggregator says at its end.
struct Used {
  long rss_kib = 0;
  double round_s = 0, user_s = 0;
  std::uint64_t bytes = 0;  // that reached the root in the last round
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// The aggregator: writes its address, ends after the rounds, writes what it has used.
int aggregate(const Options& options, int out) {
  std::vector<float> weights(options.elements);
  sparcl::State model;
  model.add("w", std::span(weights), {options.elements});
  const sparcl::Aggregator aggregator(options.elements);
  sparcl::AggregatorService service(aggregator, model);
  const std::string address = service.address() + "\n";
  if (::write(out, address.data(), address.size()) < 0) return 1;
  std::vector<double> seconds;
  Used used;
  for (std::size_t round = 0; round < options.rounds; ++round) {
    const auto report = service.next(600);
    if (!report) return 1;
    seconds.push_back(report->seconds);
    used.bytes = report->bytes;
  }
  ::sleep(1);  // workers take the last version
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  used.rss_kib = usage.ru_maxrss;
  used.round_s = median(seconds);
  used.user_s = static_cast<double>(usage.ru_utime.tv_sec) +
                static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
  return ::write(out, &used, sizeof used) == sizeof used ? 0 : 1;
}

// An aggregator below, until it is killed.
int aggregate_below(const Options& options, const std::string& parent, int out) {
  std::vector<float> weights(options.elements);
  sparcl::State model;
  model.add("w", std::span(weights), {options.elements});
  const sparcl::Aggregator aggregator(options.elements);
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.parent = parent.c_str();
  sparcl::AggregatorService service(aggregator, model, serve);
  const std::string address = service.address() + "\n";
  if (::write(out, address.data(), address.size()) < 0) return 1;
  while (true) (void)service.next(600);
}

// Each worker changes its own elements, half of them common to all.
void train(const Options& options, std::size_t worker, std::vector<float>& weights) {
  const auto step = static_cast<std::size_t>(2 / std::max(options.density, 1e-9));
  if (options.density >= 1) {
    for (float& each : weights) each += 0.001f;
    return;
  }
  for (std::size_t e = 0; e < weights.size(); e += step) weights[e] += 0.001f;
  for (std::size_t e = 1 + worker; e < weights.size(); e += step) weights[e] += 0.001f;
}

int work(const Options& options, const std::vector<std::string>& addresses, std::FILE* in) {
  std::vector<double> rounds;
  std::uint64_t bytes = 0, entries = 0;
  std::barrier meeting(static_cast<std::ptrdiff_t>(options.workers));
  double begun = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < options.workers; ++i) {
    threads.emplace_back([&, i] {
      std::vector<float> own(options.elements);
      sparcl::State state;
      state.add("w", std::span(own), {options.elements});
      const std::string& address = addresses[i * addresses.size() / options.workers];
      sparcl::Worker worker(state, address,
                            {.number = i + 1, .wire = static_cast<sparclWire_t>(options.wire)});
      worker.next(600);
      for (std::size_t round = 0; round < options.rounds; ++round) {
        train(options, i, own);
        meeting.arrive_and_wait();
        if (i == 0) begun = now_s();
        meeting.arrive_and_wait();
        worker.contribute(1);
        worker.next(600);
        meeting.arrive_and_wait();
        if (i == 0) rounds.push_back(now_s() - begun);
      }
      if (i == 0) {
        bytes = worker.stats().bytes;
        entries = worker.stats().entries;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  Used used;
  if (std::fread(&used, sizeof used, 1, in) != 1) return 1;
  fmt::print(
      "{{\"workers\":{},\"branches\":{},\"elements\":{},\"density\":{},\"entries\":{},"
      "\"bytes_up\":{},\"root_bytes\":{},\"round_s\":{:.4f},\"root_s\":{:.4f},"
      "\"root_user_s\":{:.3f},\"root_rss_mib\":{}}}\n",
      options.workers, options.branches, options.elements, options.density, entries, bytes,
      used.bytes, median(rounds), used.round_s, used.user_s / static_cast<double>(options.rounds),
      used.rss_kib >> 10);
  return 0;
}

std::string read_line(std::FILE* in) {
  char line[256] = "";
  if (in == nullptr || std::fgets(line, sizeof line, in) == nullptr) return {};
  std::string text = line;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Processes that end with this one.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    if (::getpid() != owner_) return;
    for (const pid_t child : pids_) (void)::kill(child, SIGKILL);
    for (const pid_t child : pids_) (void)::waitpid(child, nullptr, 0);
  }
  // True in the child, which must end by _exit().
  bool fork() {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("no process can be made");
    if (pid > 0) pids_.push_back(pid);
    return pid == 0;
  }

 private:
  const pid_t owner_ = ::getpid();
  std::vector<pid_t> pids_;
};

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("Rounds of an elastic aggregation");
  app.add_option("--workers", options.workers)->check(CLI::Range(1, 1024));
  app.add_option("--branches", options.branches)->check(CLI::Range(0, 64));
  app.add_option("--elements", options.elements)->check(CLI::PositiveNumber);
  app.add_option("--density", options.density)->check(CLI::Range(1e-9, 1.0));
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  app.add_option("--wire", options.wire)->check(CLI::Range(0, 4));
  CLI11_PARSE(app, argc, argv);
  int root_ends[2];
  if (::pipe(root_ends) != 0) return 1;
  Children children;
  if (children.fork()) ::_exit(aggregate(options, root_ends[1]));
  ::close(root_ends[1]);
  std::FILE* const in = ::fdopen(root_ends[0], "r");
  const std::string root = read_line(in);
  std::vector<std::string> addresses;
  for (std::size_t branch = 0; branch < options.branches; ++branch) {
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    if (children.fork()) ::_exit(aggregate_below(options, root, ends[1]));
    ::close(ends[1]);
    addresses.push_back(read_line(::fdopen(ends[0], "r")));
  }
  if (addresses.empty()) addresses.push_back(root);
  return work(options, addresses, in);
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_elastic: %s\n", error.what());
  return 1;
}
