#include "src/comm/start/link_measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>

#include "src/base/error_text.hpp"
#include "src/base/float_environment.hpp"
#include "src/comm/engine/lending.hpp"
#include "src/comm/start/small_gather.hpp"

namespace sparcl::comm {
namespace {

constexpr std::size_t kSmallBytes = 64;
constexpr std::size_t kLargeBytes = 256 << 10;  // as the segments of sums
constexpr int kMessages = 4;                    // at once

// The lower quartile, because other programs' work only adds to the times.
double lower_quartile(std::vector<double> times) {
  const auto quarter = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quarter, times.end());
  return *quarter;
}

// Sends messages to the rank `away` ahead of this one, and receives as many from the rank as far
// behind.
class Exchange {
 public:
  Exchange(const CommContext& comm, transport::Channel channel)
      : comm_(comm),
        transport_(comm.engine->transport()),
        channel_(channel),
        half_(std::max(1, transport_.size() / 2)) {}

  Task run(int away, int messages, std::size_t bytes, double& seconds) {
    Engine& engine = *comm_.engine;
    const int rank = transport_.rank(), ranks = transport_.size();
    std::vector<Buffer> outgoing;
    for (int i = 0; i < messages; ++i) {
      outgoing.push_back(comm_.outgoing().take(bytes));
      std::memset(outgoing.back().data(), i, bytes);
    }
    const double begin = transport_.now();
    std::vector<transport::OperationRef> received, sent;
    for (int i = 0; i < messages; ++i)
      received.push_back(
          engine.receive((rank + ranks - away) % ranks, channel_, comm_.buffers->take(bytes)));
    const int to = (rank + away) % ranks;
    for (const Buffer& message : outgoing)
      sent.push_back(engine.send(to, channel_, lent(comm_.window.get(), to, message)));
    for (const transport::OperationRef& each : received) {
      SPARCL_CO_RETURN_IF_ERROR(co_await engine.wait(each, "a measurement of the link"));
      const std::span<const std::byte> there = each->buffer.bytes().first(each->bytes);
      if (const std::optional<Buffer> from_window =
              borrowed(comm_.window.get(), each->peer, there)) {
        look_at(from_window->bytes());
      } else {
        look_at(there);
      }
    }
    for (const transport::OperationRef& each : sent) {
      SPARCL_CO_RETURN_IF_ERROR(co_await engine.wait(each, "a measurement of the link"));
    }
    seconds = transport_.now() - begin;
    co_return Status();
  }

  // The time of one message in a chain, the fastest of a few chains. The exchanges of a chain
  // alternate between the rank half the communicator away and the next rank. Each rank thereby
  // waits for all others in the end. If ranks share cores, a message that came while a rank had no
  // core tells nothing.
  Task run_chains(int messages, std::size_t bytes, double& seconds) {
    constexpr int kChains = 6, kLength = 8;
    seconds = std::numeric_limits<double>::infinity();
    for (int chain = -1; chain < kChains; ++chain) {
      const double begin = transport_.now();
      for (int i = 0; i < kLength; ++i) {
        double once = 0;
        Task exchange = run(i % 2 == 0 ? half_ : 1, messages, bytes, once);
        SPARCL_CO_RETURN_IF_ERROR(co_await exchange);
      }
      if (chain >= 0) seconds = std::min(seconds, (transport_.now() - begin) / kLength);
    }
    co_return Status();
  }

  // The times of `times` exchanges, after two that warm up.
  Task run_often(int times, int messages, std::size_t bytes, double& seconds) {
    std::vector<double> all;
    for (int i = -2; i < times; ++i) {
      double once = 0;
      Task exchange = run(half_, messages, bytes, once);
      SPARCL_CO_RETURN_IF_ERROR(co_await exchange);
      if (i >= 0) all.push_back(once);
    }
    seconds = lower_quartile(std::move(all));
    co_return Status();
  }

 private:
  // Reads the bytes as a sum reads its parts.
  void look_at(std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size();
         at += sizeof(std::uint64_t)) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      seen_ ^= word;
    }
    asm volatile("" : : "r"(seen_));
  }

  const CommContext& comm_;
  transport::Transport& transport_;
  transport::Channel channel_;
  int half_;
  std::uint64_t seen_ = 0;
};

// The cost of an entry of float32 in windows, both lists 6 % full.
double entry_seconds(transport::Transport& transport, const kernels::KernelSet& kernels) {
  constexpr std::size_t kEntries = 4096, kApart = 16;
  const kernels::SparseSumKernels& sum =
      kernels.sparse_sum_of(DataType::kFloat32, kernels::ReduceOp::kSum);
  constexpr std::size_t kElements = kernels::kWindowBytes / sizeof(float);
  std::array<std::vector<std::uint16_t>, 2> positions;
  for (std::size_t i = 0; i < kEntries; ++i) {
    for (std::size_t list = 0; list < 2; ++list)
      positions[list].push_back(
          static_cast<std::uint16_t>(kApart * i + (i * 7 + list * 5) % kApart));
  }
  const std::vector<float> values(kEntries, 1);
  const auto window = std::make_unique<kernels::Window>();
  std::vector<std::uint16_t> places(2 * kEntries + kernels::kEntrySlack);
  std::vector<float> sums(places.size());
  const FloatEnvironment ieee;
  sum.clear(*window);
  double least = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < 4; ++turn) {
    const double begin = transport.now();
    std::array<std::size_t, 2> done{};
    std::size_t size = 0;
    for (std::size_t first = 0; first < kApart * kEntries; first += kElements) {
      for (std::size_t list = 0; list < 2; ++list) {
        const kernels::EntryList rest{
            positions[list].data() + done[list],
            reinterpret_cast<const std::byte*>(values.data() + done[list]), kEntries - done[list]};
        done[list] += sum.add(rest, static_cast<std::uint32_t>(first), kElements, *window);
      }
      size += sum.take(*window, static_cast<std::uint32_t>(first), kElements, places.data() + size,
                       reinterpret_cast<std::byte*>(sums.data() + size));
    }
    least = std::min(least, (transport.now() - begin) / (2 * kEntries));
  }
  return least;
}

constexpr std::array kFigures{&LinkCost::round_s, &LinkCost::alpha_s, &LinkCost::beta_s_per_byte,
                              &LinkCost::entry_s};
constexpr std::array<const char*, kFigures.size()> kNames{"round_s", "message_s", "byte_s",
                                                          "entry_s"};
constexpr std::array kLeast{1e-7, 1e-8, 1e-12, 1e-10};  // a simulated clock may stand still

Task measure(const CommContext& comm, transport::Channel channel, LinkCost& own) {
  Exchange exchange(comm, channel);
  double more = 0, few = 0, large = 0;
  Task rounds = exchange.run_chains(1, kSmallBytes, own.round_s);
  SPARCL_CO_RETURN_IF_ERROR(co_await rounds);
  Task messages = exchange.run_chains(kMessages, kSmallBytes, more);
  SPARCL_CO_RETURN_IF_ERROR(co_await messages);
  Task small = exchange.run_often(11, kMessages, kSmallBytes, few);
  SPARCL_CO_RETURN_IF_ERROR(co_await small);
  Task bytes = exchange.run_often(5, kMessages, kLargeBytes, large);
  SPARCL_CO_RETURN_IF_ERROR(co_await bytes);
  // The cost of a further message is less than a round. If ranks wait for a core, both times are
  // mostly that wait, and so would be their difference.
  own.alpha_s = std::min((more - own.round_s) / (kMessages - 1), own.round_s / 4);
  own.beta_s_per_byte = (large - few) / (kMessages * kLargeBytes);
  // Messages were measured while all ranks worked, entries in a time too short to share a core.
  own.entry_s = entry_seconds(comm.engine->transport(), *comm.kernels) * comm.oversubscription;
  co_return Status();
}

}  // namespace

Task find_link_cost(const CommContext& comm, transport::Channel channel, LinkSource source,
                    std::optional<LinkCost>& cost) {
  // Inputs that the cost depends on.
  const std::array own_settings{static_cast<std::byte>(source),
                                static_cast<std::byte>(comm.entry_coding)};
  std::vector<std::byte> settings, sources, codings;
  Task asking = small_gather(*comm.engine, channel, own_settings, settings);
  SPARCL_CO_RETURN_IF_ERROR(co_await asking);
  for (std::size_t at = 0; at < settings.size(); at += own_settings.size()) {
    sources.push_back(settings[at]);
    codings.push_back(settings[at + 1]);
  }
  if (const auto odd = std::find_if(codings.begin(), codings.end(),
                                    [&](std::byte each) { return each != codings[0]; });
      odd != codings.end()) {
    co_return Status(
        Code::kMismatch,
        fmt::format("ranks 0 and {} have different SPARCL_ENTRY_CODING: set it alike on all ranks",
                    odd - codings.begin()));
  }
  const auto other = std::find_if(sources.begin(), sources.end(),
                                  [&](std::byte each) { return each != sources[0]; });
  if (other != sources.end()) {
    co_return Status(Code::kMismatch,
                     fmt::format("ranks 0 and {} have different SPARCL_LINK_COST: set it alike on "
                                 "all ranks (measure, guess, or a file)",
                                 other - sources.begin()));
  }
  if (source == LinkSource::kGuess || comm.engine->transport().size() == 1) co_return Status();
  LinkCost own = cost.value_or(LinkCost{});
  if (source == LinkSource::kMeasured) {
    Task measurement = measure(comm, channel, own);
    SPARCL_CO_RETURN_IF_ERROR(co_await measurement);
  }
  std::array<double, kFigures.size()> figures;
  for (std::size_t i = 0; i < kFigures.size(); ++i)
    figures[i] = std::max(kLeast[i], own.*kFigures[i]);
  std::vector<std::byte> all;
  Task gathering = small_gather(*comm.engine, channel, std::as_bytes(std::span(figures)), all);
  SPARCL_CO_RETURN_IF_ERROR(co_await gathering);
  for (std::size_t at = 0; at < all.size(); at += sizeof figures) {
    std::array<double, kFigures.size()> theirs;
    std::memcpy(theirs.data(), all.data() + at, sizeof theirs);
    for (std::size_t i = 0; i < kFigures.size(); ++i) figures[i] = std::max(figures[i], theirs[i]);
  }
  for (std::size_t i = 0; i < kFigures.size(); ++i) own.*kFigures[i] = figures[i];
  cost = own;
  co_return Status();
}

std::string write_link_cost(const LinkCost& cost) {
  std::string text;
  for (std::size_t i = 0; i < kFigures.size(); ++i)
    text += fmt::format("{} {:.4g}\n", kNames[i], cost.*kFigures[i]);
  return text;
}

Result<LinkCost> read_link_cost(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Status(Code::kInvalidArgument,
                  fmt::format("SPARCL_LINK_COST={}: expected measure, guess, or a file of such "
                              "figures, which cannot be read: {}",
                              path, error_text(errno)));
  }
  LinkCost cost;
  std::array<bool, kFigures.size()> has{};
  std::string name, number;
  while (file >> name >> number) {
    const auto known = std::find(kNames.begin(), kNames.end(), name);
    double value = 0;  // from_chars: the same in every locale
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool parses = error == std::errc() && end == number.data() + number.size();
    if (known == kNames.end() || !parses || !std::isfinite(value) || value <= 0 || value > 1) {
      return Status(Code::kInvalidArgument,
                    fmt::format("SPARCL_LINK_COST={}: '{} {}' is no figure of it: expected lines "
                                "of {}, each with seconds above 0",
                                path, name, number, fmt::join(kNames, ", ")));
    }
    const auto i = static_cast<std::size_t>(known - kNames.begin());
    cost.*kFigures[i] = value;
    has[i] = true;
  }
  for (std::size_t i = 0; i < kFigures.size(); ++i) {
    if (!has[i])
      return Status(Code::kInvalidArgument,
                    fmt::format("SPARCL_LINK_COST={}: {} is missing", path, kNames[i]));
  }
  return cost;
}

}  // namespace sparcl::comm
