// A replica's swap beside the bare stores of the same changes. An update to several replicas beside
// bare TCP connections that carry the same bytes. Both in turn in one run; medians, and ratios
// within a round.

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <thread>
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

struct Change {
  std::vector<std::uint32_t> indices;  // ascending
  std::vector<std::uint16_t> values;
};

Change draw_change(const std::vector<std::uint16_t>& weights, double density,
                   std::mt19937_64& random) {
  Change change;
  std::geometric_distribution<std::uint32_t> gap(density);
  for (std::uint64_t i = gap(random); i < weights.size(); i += 1 + gap(random)) {
    change.indices.push_back(static_cast<std::uint32_t>(i));
    change.values.push_back(static_cast<std::uint16_t>(weights[i] + 1 + random() % 2));
  }
  return change;
}

void store(std::vector<std::uint16_t>& weights, const Change& change) {
  for (std::size_t i = 0; i < change.indices.size(); ++i)
    weights[change.indices[i]] = change.values[i];
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

PublisherOptions local() {
  PublisherOptions options;
  options.listen.assign("127.0.0.1:0");
  return options;
}

// --- the pause ---

nlohmann::json measure_pause(std::uint64_t elements, double density, int rounds) {
  Model source(elements), replica(elements), bare(elements);
  std::unique_ptr<Publisher> publisher = must(Publisher::create(source.view(), local()));
  std::unique_ptr<Subscriber> subscriber =
      must(Subscriber::create(replica.view(), publisher->address(), SubscriberOptions()));
  must(publisher->publish(1));
  must(subscriber->next(kPatience));
  std::mt19937_64 random(1);
  std::vector<double> pauses, stores, ratios, publish_s;
  std::uint64_t bytes = 0, changed = 0;
  for (int round = 0; round < rounds; ++round) {
    const Change change = draw_change(source.weights(), density, random);
    store(source.weights(), change);
    const auto report = must(publisher->publish(static_cast<std::uint64_t>(round) + 2));
    publish_s.push_back(report.seconds);
    bytes += report.stream_bytes;
    changed += report.changed;
    const Subscriber::Swap swap = must(subscriber->next(kPatience));
    const double begin = monotonic_seconds();
    store(bare.weights(), change);
    stores.push_back(monotonic_seconds() - begin);
    pauses.push_back(swap.pause_s);
    ratios.push_back(swap.pause_s / stores.back());
    if (replica.weights() != source.weights() || bare.weights() != source.weights()) std::exit(3);
  }
  return {{"what", "pause"},
          {"elements", elements},
          {"density", density},
          {"pause_ms", median(pauses) * 1e3},
          {"bare_stores_ms", median(stores) * 1e3},
          {"ratio", median(ratios)},
          {"publish_ms", median(publish_s) * 1e3},
          {"bytes_per_change", static_cast<double>(bytes) / static_cast<double>(changed)}};
}

// --- the fan-out ---

// The child keeps a replica until it holds `last`, and its connection until it is killed.
pid_t fork_replica(const std::string& address, std::uint64_t elements, std::uint64_t last) {
  const pid_t child = fork();
  if (child != 0) return child;
  Model model(elements);
  std::unique_ptr<Subscriber> subscriber =
      must(Subscriber::create(model.view(), address, SubscriberOptions()));
  while (subscriber->versions().held < last) (void)subscriber->next(kPatience).ok();
  pause();
  _exit(0);
}

// Bare connections: each child reads `bytes` into memory a round, and answers with one.
class BareReaders {
 public:
  BareReaders(int count, std::size_t bytes) : bytes_(bytes) {
    sparcl::net::Socket listener =
        must(sparcl::net::listen_at(sparcl::net::loopback_address(), 16));
    const sparcl::net::NetAddress address = must(sparcl::net::local_address(listener));
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) read_for_ever(address, bytes);
      children_.push_back(child);
    }
    for (int i = 0; i < count; ++i) {
      pollfd entry{listener.fd(), POLLIN, 0};
      sparcl::net::poll_until(std::span(&entry, 1), monotonic_seconds() + kPatience);
      sockets_.emplace_back(
          ::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    }
    message_.resize(bytes, 1);
  }
  ~BareReaders() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  BareReaders(const BareReaders&) = delete;
  BareReaders& operator=(const BareReaders&) = delete;

  double round() {
    const double begin = monotonic_seconds();
    std::vector<std::size_t> sent(sockets_.size());
    std::vector<char> answered(sockets_.size());
    while (std::count(answered.begin(), answered.end(), 0) > 0) {
      std::vector<pollfd> entries;
      for (std::size_t i = 0; i < sockets_.size(); ++i) {
        entries.push_back({answered[i] ? -1 : sockets_[i].fd(),
                           static_cast<short>(sent[i] < bytes_ ? POLLOUT : POLLIN), 0});
      }
      if (sparcl::net::poll_until(entries, begin + kPatience) == 0) std::exit(1);
      for (std::size_t i = 0; i < sockets_.size(); ++i) {
        if (entries[i].revents == 0) continue;
        char answer = 0;
        if (sent[i] == bytes_) {
          answered[i] = ::recv(sockets_[i].fd(), &answer, 1, 0) == 1 ? 1 : 0;
          continue;
        }
        const auto part = std::min<std::size_t>(bytes_ - sent[i], 1 << 20);
        const ssize_t count =
            ::send(sockets_[i].fd(), message_.data() + sent[i], part, MSG_NOSIGNAL);
        if (count > 0) sent[i] += static_cast<std::size_t>(count);
      }
    }
    return monotonic_seconds() - begin;
  }

 private:
  [[noreturn]] static void read_for_ever(const sparcl::net::NetAddress& address,
                                         std::size_t bytes) {
    const sparcl::net::Socket socket = must(sparcl::net::start_connect(address));
    std::vector<char> space(bytes);
    pollfd entry{socket.fd(), POLLOUT, 0};
    sparcl::net::poll_until(std::span(&entry, 1), monotonic_seconds() + kPatience);
    entry.events = POLLIN;
    for (std::size_t there = 0;;) {
      sparcl::net::poll_until(std::span(&entry, 1), monotonic_seconds() + kPatience);
      const ssize_t count = ::recv(socket.fd(), space.data() + there, bytes - there, 0);
      if (count == 0) _exit(0);
      if (count > 0) there += static_cast<std::size_t>(count);
      if (there < bytes) continue;
      there = 0;
      if (::send(socket.fd(), "!", 1, MSG_NOSIGNAL) != 1) _exit(1);
    }
  }

  std::size_t bytes_;
  std::vector<pid_t> children_;
  std::vector<sparcl::net::Socket> sockets_;
  std::vector<char> message_;
};

// All elements change, by noise: the update has as many bytes as the model.
nlohmann::json measure_fan_out(std::uint64_t elements, int replicas, int rounds) {
  const std::uint64_t last = static_cast<std::uint64_t>(rounds) + 1;
  BareReaders bare(replicas, elements * sizeof(std::uint16_t));
  Model source(elements);
  // The children are forked before any thread starts: they wait for the publisher.
  const sparcl::net::NetAddress free_port = [] {
    const sparcl::net::Socket probe =
        must(sparcl::net::listen_at(sparcl::net::loopback_address(), 1));
    return must(sparcl::net::local_address(probe));
  }();
  std::vector<pid_t> children;
  for (int i = 0; i < replicas; ++i)
    children.push_back(fork_replica(sparcl::net::to_text(free_port), elements, last));
  PublisherOptions options;
  options.listen = sparcl::net::to_text(free_port);
  std::unique_ptr<Publisher> publisher = must(Publisher::create(source.view(), options));
  must(publisher->publish(1));
  if (!publisher->wait(1, replicas, kPatience).ok()) std::exit(1);
  std::mt19937_64 random(2);
  std::vector<double> staged, held, carried, of_bare;
  std::uint64_t bytes = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::uint16_t& each : source.weights()) each = static_cast<std::uint16_t>(random());
    const std::uint64_t version = static_cast<std::uint64_t>(round) + 2;
    bytes = must(publisher->publish(version)).stream_bytes;
    const double begin = monotonic_seconds();
    if (!publisher->wait_staged(version, replicas, kPatience).ok()) std::exit(1);
    staged.push_back(monotonic_seconds() - begin);
    if (!publisher->wait(version, replicas, kPatience).ok()) std::exit(1);
    held.push_back(monotonic_seconds() - begin);
    carried.push_back(bare.round());
    of_bare.push_back(carried.back() / staged.back());
  }
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  const double all = static_cast<double>(bytes) * replicas * 1e-9;
  return {{"what", "fan-out"},
          {"replicas", replicas},
          {"bytes", bytes},
          {"staged_ms", median(staged) * 1e3},
          {"held_ms", median(held) * 1e3},
          {"bare_tcp_ms", median(carried) * 1e3},
          {"staged_gbyte_s", all / median(staged)},
          {"bare_gbyte_s", all / median(carried)},
          {"of_bare", median(of_bare)}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("the replication service against bare stores and bare TCP; one line of JSON each");
  std::uint64_t elements = std::uint64_t{64} << 20;
  int rounds = 11, mib = 64;
  app.add_option("--elements", elements, "of bf16, for the pause");
  app.add_option("--rounds", rounds);
  app.add_option("--mib", mib,
                 "of an update that goes to 1, 4 and 8 replicas; one of 1 MiB goes to 4, too");
  CLI11_PARSE(app, argc, argv);
  for (const auto& [replicas, size] : {std::pair{1, mib}, {4, mib}, {8, mib}, {4, 1}}) {
    fmt::print("{}\n",
               measure_fan_out(static_cast<std::uint64_t>(size) << 19, replicas, rounds).dump());
    std::fflush(stdout);
  }
  for (const double density : {0.001, 0.01, 0.03})
    fmt::print("{}\n", measure_pause(elements, density, rounds).dump());
  return 0;
}
