#include "worker_fleet.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace training {
namespace {

constexpr int kChildsChannel = 3;  // the descriptor's number in a worker

// posix_spawn, since the publisher's thread runs: between fork and exec hardly anything may be
// called.
pid_t spawn(std::vector<std::string> words, int channel) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, channel, kChildsChannel);
  pid_t process = -1;
  const int error =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw std::runtime_error(std::string("a worker cannot be started: ") + std::strerror(error));
  return process;
}

std::int64_t later_ns(double seconds) {
  return now_ns() + static_cast<std::int64_t>(1e9 * seconds);
}

}  // namespace

WorkerFleet::WorkerFleet(const SyncOptions& options, std::string address)
    : options_(options), address_(std::move(address)) {}

WorkerFleet::~WorkerFleet() {
  for (const Worker& worker : workers_) end(worker);
}

void WorkerFleet::start(int worker) {
  ChannelPair channels = make_channel_pair();
  std::vector<std::string> words = {"rl_weight_sync", "worker",
                                    "--address",      address_,
                                    "--channel",      std::to_string(kChildsChannel),
                                    "--parent",       std::to_string(::getpid()),
                                    "--stream",       std::to_string(lives_++),
                                    "--seed",         std::to_string(options_.seed),
                                    "--model-size",   options_.size_name};
  if (!options_.text.empty()) words.emplace_back("--text");
  for (const auto& path : options_.text) words.push_back(path.string());
  const std::int64_t started_ns = now_ns();
  const pid_t process = spawn(std::move(words), channels.others.descriptor());
  workers_.push_back({worker, process, std::move(channels.mine), started_ns, false, {}});
}

void WorkerFleet::kill(int worker) {
  receive_all();
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const Worker& each) { return each.number == worker; });
  if (found == workers_.end()) return;
  end(*found);
  workers_.erase(found);
}

int WorkerFleet::running() const { return static_cast<int>(workers_.size()); }

void WorkerFleet::end(const Worker& worker) {
  ::kill(worker.process, SIGKILL);
  (void)::waitpid(worker.process, nullptr, 0);
}

void WorkerFleet::wait_for_messages(std::int64_t until_ns) {
  std::vector<pollfd> entries;
  for (const Worker& worker : workers_) {
    if (!worker.channel.is_over()) entries.push_back({worker.channel.descriptor(), POLLIN, 0});
  }
  const std::int64_t left_ms = std::clamp<std::int64_t>((until_ns - now_ns()) / 1'000'000, 0, 1000);
  (void)::poll(entries.data(), entries.size(), static_cast<int>(left_ms));
}

void WorkerFleet::receive_all() {
  for (Worker& worker : workers_) {
    while (std::optional<RolloutMessage> message = worker.channel.receive())
      take(worker, std::move(*message));
  }
}

void WorkerFleet::take(Worker& worker, RolloutMessage&& message) {
  const RolloutMessage::Head& head = message.head;
  if (head.kind == MessageKind::kRollout)
    rollouts_.push_back({head.version, std::move(message.tokens)});
  if (head.kind == MessageKind::kGoodbye)
    worker.goodbye = Goodbye{worker.number, head.version, head.hash};
  if (head.kind != MessageKind::kSwapped) return;
  if (worker.has_joined) pauses_s_.push_back(head.pause_s);
  if (!worker.has_joined)
    joins_s_.push_back(1e-9 * static_cast<double>(head.at_ns - worker.started_ns));
  worker.has_joined = true;
}

std::vector<Rollout> WorkerFleet::collect(std::size_t least, double seconds) {
  const std::int64_t until_ns = later_ns(seconds);
  receive_all();
  while (rollouts_.size() < least && now_ns() < until_ns) {
    wait_for_messages(until_ns);
    receive_all();
    for (const Worker& worker : workers_) {
      if (worker.channel.is_over())
        throw std::runtime_error(fmt::format("worker {} has ended", worker.number));
    }
  }
  return std::exchange(rollouts_, {});
}

std::vector<Goodbye> WorkerFleet::stop(double seconds) {
  for (const Worker& worker : workers_) worker.channel.say_no_more();
  const std::int64_t until_ns = later_ns(seconds);
  const auto all_over = [&] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& each) { return each.channel.is_over(); });
  };
  while (!all_over() && now_ns() < until_ns) {
    wait_for_messages(until_ns);
    receive_all();
  }
  std::vector<Goodbye> goodbyes;
  for (const Worker& worker : workers_) {
    if (worker.goodbye) goodbyes.push_back(*worker.goodbye);
    end(worker);
  }
  workers_.clear();
  return goodbyes;
}

}  // namespace training
