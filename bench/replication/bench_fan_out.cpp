// A publisher, and replicas on other hosts: how long an update takes to the last of them, and how
// many bytes leave the publisher. Run by bench/hosts/fan_out, a process on each host.

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/replication/bare_chain.hpp"
#include "sparcl/sparcl.h"

namespace {

constexpr double kPatience = 120;  // seconds

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void must(sparclResult_t result) {
  if (result == sparclSuccess) return;
  fmt::print(stderr, "bench_fan_out: {}\n", sparclGetLastError(nullptr));
  std::exit(1);
}

// Of this process, all threads.
double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return of(use.ru_utime) + of(use.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Bytes that this host's network has sent, with headers and acknowledgements.
double sent_by_host() {
  std::ifstream file("/proc/self/net/dev");
  double bytes = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find("lo:") != std::string::npos) continue;
    std::istringstream fields(line.substr(colon + 1));
    double field = 0;
    for (int i = 0; i < 9; ++i) fields >> field;
    bytes += field;
  }
  return bytes;
}

struct Model {
  explicit Model(std::uint64_t elements) : weights(elements) {
    must(sparclStateCreate(&state));
    must(sparclStateAdd(state, "weights", weights.data(), sparclBfloat16, 1, &elements));
  }
  std::vector<std::uint16_t> weights;
  sparclState_t state = nullptr;
};

int keep(const std::string& address, std::uint64_t elements, std::uint64_t last) {
  Model model(elements);
  sparclSubscriber_t subscriber = nullptr;
  must(sparclSubscriberCreate(&subscriber, model.state, address.c_str(), nullptr));
  std::uint64_t version = 0;
  must(sparclSubscriberNext(subscriber, kPatience, &version));
  const double cpu_s = cpu_seconds();
  while (version < last) must(sparclSubscriberNext(subscriber, kPatience, &version));
  fmt::print(stderr, "{{\"replica_cpu_s\":{:.3f}}}\n", cpu_seconds() - cpu_s);
  sleep(1);  // its children still need the end
  must(sparclSubscriberDestroy(subscriber));
  return 0;
}

int publish(const std::string& listen, std::uint64_t elements, int replicas, int rounds,
            double gbit) {
  Model model(elements);
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = listen.c_str();
  options.insecure = sparclOn;  // unless SPARCL_SECRET names a secret
  sparclPublisher_t publisher = nullptr;
  must(sparclPublisherCreate(&publisher, model.state, &options));
  must(sparclPublish(publisher, 1));
  must(sparclPublisherWait(publisher, 1, replicas, kPatience));
  usleep(300'000);  // until the replicas have their positions in the fan-out
  std::mt19937_64 random(1);
  std::vector<double> times, uploads, cpu;
  double bytes = 0;
  for (int round = 0; round < rounds; ++round) {
    // Noise: the update has as many bytes as the model.
    for (std::uint16_t& each : model.weights) each = static_cast<std::uint16_t>(random());
    const std::uint64_t version = static_cast<std::uint64_t>(round) + 2;
    must(sparclPublish(publisher, version));
    const double begin = seconds(), cpu_begin = cpu_seconds();
    const double sent = sent_by_host();
    must(sparclPublisherWait(publisher, version, replicas, kPatience));
    times.push_back(seconds() - begin);
    cpu.push_back(cpu_seconds() - cpu_begin);
    sparclReport_t report{};
    report.size = sizeof report;
    must(sparclPublisherLastReport(publisher, &report));
    bytes = static_cast<double>(report.bytes_sent);
    uploads.push_back((sent_by_host() - sent) / bytes);
  }
  const double line_s = bytes * 8 / (gbit * 1e9);
  const nlohmann::ordered_json row = {{"replicas", replicas},
                                      {"bytes", bytes},
                                      {"ms_to_the_last", median(times) * 1e3},
                                      {"ms_of_the_line", line_s * 1e3},
                                      {"of_the_line_rate", line_s / median(times)},
                                      {"times_sent_by_the_publisher", median(uploads)},
                                      {"publisher_cpu_ms", median(cpu) * 1e3}};
  fmt::print("{}\n", row.dump());
  must(sparclPublisherDestroy(publisher));
  return 0;
}

// The same bytes by a bare chain, for comparison with publish().
int send_bare(const std::string& first, std::uint64_t elements, int replicas, int rounds,
              double gbit) {
  const std::uint64_t bytes = 2 * elements;
  const double line_s = static_cast<double>(bytes) * 8 / (gbit * 1e9);
  const double time = median(sparcl::bench::send_down_bare_chain(first, bytes, rounds));
  const nlohmann::ordered_json row = {{"bare_chain_of", replicas},
                                      {"bytes", bytes},
                                      {"ms_to_the_last", time * 1e3},
                                      {"ms_of_the_line", line_s * 1e3},
                                      {"of_the_line_rate", line_s / time}};
  fmt::print("{}\n", row.dump());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("an update from a publisher to replicas on other hosts (bench/hosts/fan_out)");
  app.require_subcommand(1);
  std::uint64_t elements = std::uint64_t{32} << 20;
  int replicas = 2, rounds = 5;
  double gbit = 1;
  std::string address, next;
  app.add_option("--elements", elements, "of bf16");
  app.add_option("--rounds", rounds);
  CLI::App* source = app.add_subcommand("publish");
  source->add_option("--listen", address)->required();
  source->add_option("--replicas", replicas);
  source->add_option("--gbit", gbit, "of the publisher's line");
  CLI::App* copy = app.add_subcommand("keep");
  copy->add_option("--address", address)->required();
  CLI::App* bare = app.add_subcommand("send-bare", "down a chain of pass-bare");
  bare->add_option("--to", next)->required();
  bare->add_option("--replicas", replicas);
  bare->add_option("--gbit", gbit);
  CLI::App* pass = app.add_subcommand("pass-bare");
  pass->add_option("--listen", address)->required();
  pass->add_option("--to", next, "none: the last of the chain");
  CLI11_PARSE(app, argc, argv);
  if (*bare) return send_bare(next, elements, replicas, rounds, gbit);
  if (*pass) {
    sparcl::bench::pass_on_in_bare_chain(address, next, 2 * elements);
    return 0;
  }
  if (*copy) return keep(address, elements, static_cast<std::uint64_t>(rounds) + 1);
  return publish(address, elements, replicas, rounds, gbit);
}
