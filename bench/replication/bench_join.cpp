// Replicas that come late, beside some that hold the model: how long each takes to hold it, and how
// many bytes the publisher sends it. One line of JSON each. --from publisher: as if no replica gave
// what it holds.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/replication/one_tensor_model.hpp"
#include "src/net/socket.hpp"
#include "src/replication/publisher.hpp"
#include "src/replication/subscriber.hpp"

namespace {

using Model = sparcl::bench::OneTensorModel;
using sparcl::bench::must;
using sparcl::net::monotonic_seconds;
using sparcl::replication::Publisher;
using sparcl::replication::PublisherOptions;
using sparcl::replication::ReplicatedState;
using sparcl::replication::Subscriber;
using sparcl::replication::SubscriberOptions;

constexpr double kPatience = 120;  // seconds

void fill(Model& model, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint16_t& each : model.weights()) each = static_cast<std::uint16_t>(random());
}

// A process that waits for its turn, joins, says how long that took, and stays.
struct Joiner {
  pid_t pid = 0;
  int start = -1, answer = -1;
};

Joiner fork_joiner(const std::string& address, std::uint64_t elements, bool gives) {
  int start[2], answer[2];
  if (pipe(start) != 0 || pipe(answer) != 0) std::exit(1);
  const pid_t child = fork();
  if (child != 0) return {child, start[1], answer[0]};
  Model model(elements);
  char turn = 0;
  if (read(start[0], &turn, 1) != 1) _exit(1);
  SubscriberOptions options;
  options.shares_memory = false;  // as on a host of its own
  options.gives_bytes = gives;
  const double begin = monotonic_seconds();
  std::unique_ptr<Subscriber> subscriber = must(Subscriber::create(model.view(), address, options));
  (void)must(subscriber->next(kPatience));
  const double took = monotonic_seconds() - begin;
  if (write(answer[1], &took, sizeof(took)) != sizeof(took)) _exit(1);
  for (;;) (void)subscriber->next(kPatience).ok();
}

double join(const Joiner& joiner) {
  double took = 0;
  if (write(joiner.start, "!", 1) != 1 || read(joiner.answer, &took, sizeof(took)) != sizeof(took))
    std::exit(1);
  return took;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("replicas that join late; one line of JSON each");
  int mib = 64, replicas = 4, joiners = 4;
  std::string from = "replicas";
  app.add_option("--mib", mib, "of the model");
  app.add_option("--replicas", replicas, "that hold the model before");
  app.add_option("--joiners", joiners, "one after the other, each of a version of its own");
  app.add_option("--from", from, "replicas|publisher")
      ->check(CLI::IsMember({"replicas", "publisher"}));
  CLI11_PARSE(app, argc, argv);
  const std::uint64_t elements = static_cast<std::uint64_t>(mib) << 19;
  const sparcl::net::NetAddress free_port = [] {
    const auto probe = must(sparcl::net::listen_at(sparcl::net::loopback_address(), 1));
    return must(sparcl::net::local_address(probe));
  }();
  const std::string address = sparcl::net::to_text(free_port);
  // Forked before any thread starts.
  std::vector<Joiner> all;
  for (int i = 0; i < replicas + joiners; ++i)
    all.push_back(fork_joiner(address, elements, from == "replicas"));
  Model source(elements);
  PublisherOptions options;
  options.listen = address;
  const std::unique_ptr<Publisher> publisher = must(Publisher::create(source.view(), options));
  std::uint64_t version = 0;
  for (int i = 0; i < replicas + joiners; ++i) {
    if (i == 0 || i >= replicas) {
      fill(source, ++version);
      (void)must(publisher->publish(version));
      if (!publisher->wait(version, i, kPatience).ok()) std::exit(1);
    }
    const double took = join(all[static_cast<std::size_t>(i)]);
    if (!publisher->wait(version, i + 1, kPatience).ok()) std::exit(1);
    const auto report = nlohmann::json::parse(publisher->status());
    const nlohmann::json& last = report["replicas"].back();
    fmt::print("{}\n", nlohmann::json({{"what", i < replicas ? "early" : "late"},
                                       {"from", from},
                                       {"mib", mib},
                                       {"join_ms", took * 1e3},
                                       {"publisher_sent", last["bytes_sent"]}})
                           .dump());
    std::fflush(stdout);
  }
  for (const Joiner& each : all) {
    kill(each.pid, SIGKILL);
    waitpid(each.pid, nullptr, 0);
  }
  return 0;
}
