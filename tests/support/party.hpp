#pragma once
// The ranks of one group that the calling thread runs: all of them in a deterministic world, one
// with threads or processes. Every thread or process runs the same checks in the same order. Free
// of GoogleTest, as it also runs under mpirun and in simulation.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/seeded_random.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::conformance {

// Bytes that say which message they belong to.
inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t tag) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = mix64(tag + at);
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

inline bool has_pattern(std::span<const std::byte> bytes, std::uint64_t tag) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = mix64(tag + at);
    if (std::memcmp(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at)) != 0)
      return false;
  }
  return true;
}

inline std::uint64_t pattern_tag(int from, int to, std::uint64_t index) {
  return mix64((static_cast<std::uint64_t>(from) << 40) ^ (static_cast<std::uint64_t>(to) << 20) ^
               mix64(index));
}

// A buffer whose first byte lies `skew` bytes behind an aligned address.
inline Buffer skewed(std::size_t bytes, std::size_t skew) {
  return Buffer::allocate(bytes + skew).slice(skew, bytes);
}

inline Buffer pattern_message(std::size_t bytes, std::uint64_t tag) {
  Buffer message = skewed(bytes, tag % 8);
  fill_pattern(message.bytes(), tag);
  return message;
}

class Party {
 public:
  explicit Party(std::vector<transport::Transport*> local) : local_(std::move(local)) {}

  const std::vector<transport::Transport*>& local() const { return local_; }
  int size() const { return local_.front()->size(); }

  // The same on all ranks, as all run the same checks.
  std::uint32_t next_call() { return call_++; }

  transport::OperationRef send(transport::Transport& from, int to, transport::Channel channel,
                               Buffer message) {
    return track(from.send(to, channel, std::move(message)));
  }
  transport::OperationRef receive(transport::Transport& at, int from, transport::Channel channel,
                                  Buffer space) {
    return track(at.receive(from, channel, std::move(space)));
  }

  // Empty once `over` holds; else what went wrong.
  std::string pump_until(const std::function<bool()>& over) {
    constexpr double kLimitSeconds = 60;
    const double limit = local_.front()->now() + kLimitSeconds;
    std::uint64_t turns = 0;
    while (!over()) {
      bool moved = false;
      for (transport::Transport* transport : local_) {
        if (std::string trouble = progress(*transport, moved); !trouble.empty()) return trouble;
      }
      if (moved) {
        turns = 0;
        continue;
      }
      const double now = local_.front()->now();
      if (now > limit)
        return fmt::format("rank {}: not over after {} s", local_.front()->rank(), kLimitSeconds);
      // Virtual time must not jump over what another rank of this thread has to do.
      local_.front()->idle(++turns, local_.size() > 1 ? now + 0.01 : limit + 0.01);
    }
    return "";
  }

  std::string finish(const std::vector<transport::OperationRef>& operations) {
    return pump_until([&] {
      return std::all_of(operations.begin(), operations.end(),
                         [](const auto& each) { return each->done; });
    });
  }

  // Finishes, and all must have succeeded.
  std::string finish_well(const std::vector<transport::OperationRef>& operations) {
    if (std::string trouble = finish(operations); !trouble.empty()) return trouble;
    for (const transport::OperationRef& each : operations) {
      if (!each->status.ok())
        return fmt::format("an operation with rank {} failed: {}", each->peer,
                           each->status.message());
    }
    return "";
  }

  // All ranks have come here.
  std::string barrier() {
    const transport::Channel channel{next_call(), 0};
    std::vector<transport::OperationRef> operations;
    for (transport::Transport* transport : local_) {
      for (int peer = 0; peer < size(); ++peer) {
        operations.push_back(receive(*transport, peer, channel, Buffer()));
        operations.push_back(send(*transport, peer, channel, Buffer()));
      }
    }
    return finish_well(operations);
  }

  void cancel(transport::Transport& transport, const transport::OperationRef& operation) {
    expected_.erase(operation.get());
    transport.cancel(operation);
  }

 private:
  transport::OperationRef track(transport::OperationRef operation) {
    if (!operation->done) {
      expected_.insert(operation.get());
      operation->waiter = this;
    }
    kept_.push_back(operation);
    return operation;
  }

  std::string progress(transport::Transport& transport, bool& moved) {
    completed_.clear();
    if (Status status = transport.progress(completed_); !status.ok())
      return "progress failed: " + status.message();
    for (const transport::OperationRef& operation : completed_) {
      moved = true;
      if (expected_.erase(operation.get()) == 0)
        return "progress reported an operation twice, or one that was returned done or cancelled";
      if (!operation->done) return "progress reported an operation that is not done";
      if (operation->waiter != this) return "the transport changed an operation's waiter";
    }
    if (expected_.empty()) kept_.clear();
    return "";
  }

  std::vector<transport::Transport*> local_;
  std::uint32_t call_ = 1;
  std::set<const transport::Operation*> expected_;  // posted and not yet reported
  std::vector<transport::OperationRef> kept_;       // so that no address in expected_ is used again
  std::vector<transport::OperationRef> completed_;
};

}  // namespace sparcl::conformance
