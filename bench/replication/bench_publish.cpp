// What peers, and a secret, add to the time of sparclPublish. Pairs of measurements by turns on one
// machine: without and with a hostile holder of the secret, or without and with a secret.

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/replication/hostile_holder.hpp"
#include "sparcl/sparcl.h"

extern char** environ;

namespace {

using sparcl::bench::kRowElements;
using sparcl::bench::kTensorName;

constexpr double kPatience = 60;  // seconds

struct Options {
  std::uint64_t rows = 65536;
  int pairs = 15, rounds = 4, anchors = 2, parts = 6;
  double pause = 0.3, changed = 0.01;
  std::string compare = "attack", secret, address;
};

void must(sparclResult_t result) {
  if (result == sparclSuccess) return;
  fmt::print(stderr, "bench_publish: {}\n", sparclGetLastError(nullptr));
  std::exit(1);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Weights {
  explicit Weights(std::uint64_t rows) : values(rows * kRowElements) {
    const std::uint64_t shape[2] = {rows, kRowElements};
    std::mt19937_64 random(1);
    for (std::uint16_t& each : values) each = static_cast<std::uint16_t>(0x3c00 + random() % 4096);
    must(sparclStateCreate(&state));
    must(sparclStateAdd(state, kTensorName, values.data(), sparclBfloat16, 2, shape));
  }
  void change(double part) {
    const auto every = static_cast<std::uint64_t>(2 / part);
    for (std::size_t at = random() % every; at < values.size(); at += 1 + random() % every)
      ++values[at];
  }
  std::vector<std::uint16_t> values;
  std::mt19937_64 random{2};
  sparclState_t state = nullptr;
};

// Another process of this program.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    std::vector<char*> pointers;
    arguments.insert(arguments.begin(), "/proc/self/exe");
    for (std::string& each : arguments) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    if (::posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ) != 0)
      std::exit(1);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

class Service {
 public:
  Service(const Options& options, Weights& weights, const std::string& secret)
      : options_(options), weights_(weights), secret_(secret) {
    sparclPublisherOptions_t own = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    own.secret_path = secret.empty() ? nullptr : secret.c_str();
    must(sparclPublisherCreate(&publisher_, weights.state, &own));
    must(sparclPublish(publisher_, ++version_));
    must(sparclPublisherAddress(publisher_, address_, sizeof address_));
  }
  ~Service() { (void)sparclPublisherDestroy(publisher_); }
  Service(const Service&) = delete;

  const char* address() const { return address_; }
  std::string role_secret() const { return secret_.empty() ? "" : secret_ + ".replicate"; }
  double publish() {
    const double begin = seconds();
    must(sparclPublish(publisher_, ++version_));
    return seconds() - begin;
  }
  void wait(int replicas) { must(sparclPublisherWait(publisher_, version_, replicas, kPatience)); }
  // The median of some versions.
  double measure(double& worst) {
    std::vector<double> times;
    for (int i = 0; i < options_.rounds; ++i) {
      weights_.change(options_.changed);
      usleep(static_cast<useconds_t>(options_.pause * 1e6));
      times.push_back(publish());
      worst = std::max(worst, times.back());
    }
    return median(times);
  }

 private:
  const Options& options_;
  Weights& weights_;
  std::string secret_;
  sparclPublisher_t publisher_ = nullptr;
  std::uint64_t version_ = 0;
  char address_[128]{};
};

// The median of the ratios. The interval lies between two ranks, so that the true median is outside
// of it with a probability of 3.5 % at 15 pairs (sign test).
void print(const Options& options, const std::vector<double>& before,
           const std::vector<double>& after) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < before.size(); ++i) ratios.push_back(after[i] / before[i]);
  std::sort(ratios.begin(), ratios.end());
  const std::size_t low = ratios.size() >= 15 ? 3 : 0;
  const nlohmann::ordered_json row = {{"compare", options.compare},
                                      {"elements", options.rows * kRowElements},
                                      {"pairs", ratios.size()},
                                      {"ms_without", median(before) * 1e3},
                                      {"ms_with", median(after) * 1e3},
                                      {"ratio", median(ratios)},
                                      {"interval", {ratios[low], ratios[ratios.size() - 1 - low]}}};
  fmt::print("{}\n", row.dump());
}

// A publisher of its own for each measurement: an attack leaves work behind.
int compare_attack(const Options& options) {
  Weights weights(options.rows);
  std::vector<double> times[2];
  double worst[2] = {0, 0};
  for (int pair = 0; pair < options.pairs; ++pair) {
    for (int turn = 0; turn < 2; ++turn) {
      const std::size_t which = (pair + turn) % 2 == 1 ? 1 : 0;
      Service service(options, weights, options.secret);
      std::vector<Child> hostile;
      if (which == 1 && options.compare == "busy") {
        hostile.emplace_back(std::vector<std::string>{"busy"});
      } else if (which == 1) {
        hostile.emplace_back(std::vector<std::string>{
            "hostile", "--address", service.address(), "--secret", service.role_secret(), "--rows",
            std::to_string(options.rows), "--anchors", std::to_string(options.anchors), "--parts",
            std::to_string(options.parts)});
      }
      usleep(1'500'000);
      times[which].push_back(service.measure(worst[which]));
      fmt::print(stderr, "{} {:.1f} ms\n", which == 1 ? "attacked" : "quiet",
                 times[which].back() * 1e3);
    }
  }
  print(options, times[0], times[1]);
  fmt::print("{{\"worst_ms_without\":{:.1f},\"worst_ms_with\":{:.1f}}}\n", worst[0] * 1e3,
             worst[1] * 1e3);
  return 0;
}

int compare_secret(const Options& options) {
  Weights weights(options.rows), same(options.rows);  // a state has one publisher
  Service plain(options, weights, ""), secret(options, same, options.secret);
  std::vector<Child> replicas;
  for (const Service* each : {&plain, &secret}) {
    replicas.emplace_back(std::vector<std::string>{"keep", "--address", each->address(), "--secret",
                                                   each->role_secret(), "--rows",
                                                   std::to_string(options.rows)});
  }
  plain.wait(1);
  secret.wait(1);
  std::vector<double> times[2];
  for (int pair = 0; pair < options.pairs; ++pair) {
    std::vector<double> rounds[2];
    for (int round = 0; round < options.rounds; ++round) {
      weights.change(options.changed);
      same.change(options.changed);
      usleep(static_cast<useconds_t>(options.pause * 1e6));
      for (int turn = 0; turn < 2; ++turn) {
        const bool is_secret = (pair + round + turn) % 2 == 1;
        rounds[is_secret ? 1 : 0].push_back((is_secret ? secret : plain).publish());
        (is_secret ? secret : plain).wait(1);
      }
    }
    for (int i = 0; i < 2; ++i) times[i].push_back(median(rounds[i]));
  }
  print(options, times[0], times[1]);
  return 0;
}

int keep(const Options& options) {
  Weights weights(options.rows);
  sparclSubscriberOptions_t own = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  own.secret_path = options.secret.empty() ? nullptr : options.secret.c_str();
  sparclSubscriber_t subscriber = nullptr;
  must(sparclSubscriberCreate(&subscriber, weights.state, options.address.c_str(), &own));
  std::uint64_t version = 0;
  while (sparclSubscriberNext(subscriber, kPatience, &version) == sparclSuccess) {
  }
  return 0;
}

// Copies memory, and talks to nobody: what any other program on the machine costs.
int be_busy() {
  ::setpriority(PRIO_PROCESS, 0, 19);
  std::vector<char> from(64 << 20, 1), to(from.size());
  for (;;) std::memcpy(to.data(), from.data(), from.size());
}

int be_hostile(const Options& options) {
  ::setpriority(PRIO_PROCESS, 0, 19);  // its own work is to cost the publisher nothing
  sparcl::bench::attack(
      {options.address, options.secret, options.anchors, options.parts, options.rows});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("the time of sparclPublish beside a hostile holder of the secret, or with a secret");
  app.require_subcommand(0, 1);
  const auto add_options = [&](CLI::App& to) {
    to.add_option("--rows", options.rows, "of 1,024 elements of bf16");
    to.add_option("--secret", options.secret,
                  "file of role publish; of role replicate in children");
    to.add_option("--anchors", options.anchors,
                  "connections that ask for all bytes, again and again");
    to.add_option("--parts", options.parts, "connections that hold different parts each");
    to.add_option("--address", options.address);
  };
  add_options(app);
  app.add_option("--pairs", options.pairs);
  app.add_option("--rounds", options.rounds, "versions of a measurement");
  app.add_option("--pause", options.pause, "seconds between two versions");
  app.add_option("--changed", options.changed, "part of the elements");
  app.add_option("--compare", options.compare)->check(CLI::IsMember({"attack", "busy", "secret"}));
  CLI::App* const hostile = app.add_subcommand("hostile", "the attack alone");
  CLI::App* const busy = app.add_subcommand("busy", "a program that copies memory");
  CLI::App* const keeps = app.add_subcommand("keep", "a replica alone");
  add_options(*hostile);
  add_options(*keeps);
  CLI11_PARSE(app, argc, argv);
  if (hostile->parsed()) return be_hostile(options);
  if (busy->parsed()) return be_busy();
  if (keeps->parsed()) return keep(options);
  return options.compare == "secret" ? compare_secret(options) : compare_attack(options);
}
