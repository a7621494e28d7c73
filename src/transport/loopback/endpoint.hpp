#pragma once
// One rank's end of a loopback world: its mailboxes, and the inbox of its finished operations.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/base/seeded_random.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport::loopback {

// Only the owner's thread accesses public fields; other threads reach the operation through its
// owner's inbox.
struct LoopbackOperation final : Operation {
  bool cancelled = false;
};
using LocalOperation = std::shared_ptr<LoopbackOperation>;

struct Letter {
  int from = -1;
  int to = -1;
  transport::Channel channel;
  Buffer bytes;           // the sender's memory, or a copy if the message was sent eagerly
  LocalOperation sender;  // empty if the message was sent eagerly: its send is done already
};

struct Completion {
  LocalOperation operation;
  std::uint64_t bytes = 0;
  Status status;
};

struct MailboxKey {
  int from = -1;
  transport::Channel channel;
  friend bool operator==(const MailboxKey&, const MailboxKey&) = default;
};

struct MailboxHash {
  std::size_t operator()(const MailboxKey& key) const {
    const std::uint64_t channel = (std::uint64_t{key.channel.call} << 8) | key.channel.lane;
    return mix64(mix64(channel) + static_cast<std::uint64_t>(key.from));
  }
};

// Never has both, because a letter with a posted receive is handed over at once. Lists, because an
// empty list allocates nothing.
struct Mailbox {
  std::list<Letter> arrived;
  std::list<LocalOperation> posted;
  bool empty() const { return arrived.empty() && posted.empty(); }
};

// The newest closed channels. Older ones are forgotten, which costs only the memory of a late
// letter.
class ClosedChannels {
 public:
  void add(transport::Channel channel);
  bool contains(transport::Channel channel) const { return set_.contains(channel); }

 private:
  static constexpr std::size_t kRemembered = 4096;
  std::deque<transport::Channel> order_;
  std::set<transport::Channel> set_;
};

// All but `news` is guarded by `mutex`.
struct Endpoint {
  mutable std::mutex mutex;
  std::condition_variable roused;
  std::atomic<bool> news{false};  // inbox or signals have grown since the owner last looked
  std::atomic<bool> has_signals{false};
  std::atomic<bool> has_left{false};  // in good order
  std::atomic<bool> has_lost{false};  // a death or a signal could not be noted, because there was
                                      // no memory: progress() reports an error
  bool sleeping = false;
  bool listed = false;  // deterministic: it is in the core's list of roused ranks
  bool made = false;    // its Transport exists or existed
  bool alive = true;
  std::unordered_map<MailboxKey, Mailbox, MailboxHash>
      boxes;  // on demand, gone when empty: a world of n ranks stays O(n)
  ClosedChannels closed;
  std::vector<Completion> inbox;
  std::deque<transport::Signal> signals;
  std::unordered_set<int> dead_peers;  // known to this rank
  std::unordered_map<int, std::vector<LocalOperation>>
      orphans;  // sends to a peer that is dead, before this rank knows it
};

}  // namespace sparcl::transport::loopback
