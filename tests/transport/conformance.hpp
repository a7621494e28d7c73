#pragma once
// What every transport must do. Each check answers with an empty text, or with what went wrong. A
// new body runs them all: make a Party of its ranks and call run_all().

#include <fmt/format.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/party.hpp"

namespace sparcl::conformance {

struct Limits {
  std::size_t largest_bytes = std::size_t{8} << 20;
  int many = 300;
  bool drops_while_idle = true;  // false: a body that blocks while it idles does not look for
                                 // messages on closed channels
};

struct Message {
  transport::OperationRef receive;
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
};

inline std::string check_received(const std::vector<Message>& messages) {
  for (const Message& each : messages) {
    const transport::Operation& receive = *each.receive;
    if (receive.bytes != each.bytes) {
      return fmt::format("a message of {} bytes from rank {} on call {} lane {} arrived with {}",
                         each.bytes, receive.peer, receive.channel.call, receive.channel.lane,
                         receive.bytes);
    }
    if (!has_pattern(receive.buffer.bytes().first(each.bytes), each.tag)) {
      return fmt::format(
          "a message of {} bytes from rank {} on call {} lane {} has other bytes than were sent",
          each.bytes, receive.peer, receive.channel.call, receive.channel.lane);
    }
  }
  return "";
}

inline std::string finish_and_check(Party& party, std::vector<transport::OperationRef> operations,
                                    const std::vector<Message>& messages) {
  for (const Message& each : messages) operations.push_back(each.receive);
  if (std::string trouble = party.finish_well(operations); !trouble.empty()) return trouble;
  return check_received(messages);
}

// Every rank sends sizes[i] to every rank, itself included, on one channel. Receives are posted
// before the sends, or after them.
inline std::string exchange(Party& party, const std::vector<std::size_t>& sizes,
                            bool receives_first, std::size_t spare_bytes = 0) {
  const transport::Channel channel{party.next_call(), 1};
  std::vector<transport::OperationRef> sends;
  std::vector<Message> messages;
  const auto post_receives = [&](transport::Transport& own) {
    for (int peer = 0; peer < party.size(); ++peer) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const Buffer space = skewed(sizes[i] + spare_bytes, (i + 3) % 8);
        messages.push_back(
            {party.receive(own, peer, channel, space), sizes[i], pattern_tag(peer, own.rank(), i)});
      }
    }
  };
  if (receives_first) {
    for (transport::Transport* own : party.local()) post_receives(*own);
  }
  for (transport::Transport* own : party.local()) {
    for (int peer = 0; peer < party.size(); ++peer) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        sends.push_back(party.send(*own, peer, channel,
                                   pattern_message(sizes[i], pattern_tag(own->rank(), peer, i))));
      }
    }
  }
  if (!receives_first) {
    for (transport::Transport* own : party.local()) post_receives(*own);
  }
  return finish_and_check(party, std::move(sends), messages);
}

inline std::string check_identity(Party& party, const Limits&) {
  for (transport::Transport* own : party.local()) {
    if (own->size() < 1 || own->rank() < 0 || own->rank() >= own->size())
      return "rank or size is out of range";
    if (own->name().empty()) return "the transport has no name";
    if (own->capabilities().max_message_bytes == 0) return "no message may be sent at all";
    for (int peer = 0; peer < own->size(); ++peer) {
      if (own->describe_peer(peer).empty()) return fmt::format("rank {} is not described", peer);
    }
    if (own->describe_peer(-1).empty() || own->describe_peer(own->size()).empty())
      return "a rank that does not exist is not described";
  }
  return "";
}

inline std::string check_refuses_bad_peer(Party& party, const Limits&) {
  for (transport::Transport* own : party.local()) {
    for (const int peer : {-1, own->size()}) {
      const transport::OperationRef send =
          own->send(peer, {party.next_call(), 0}, Buffer::allocate(8));
      const transport::OperationRef receive =
          own->receive(peer, {party.next_call(), 0}, Buffer::allocate(8));
      for (const transport::OperationRef& each : {send, receive}) {
        if (each == nullptr || !each->done || each->status.code() != Code::kInvalidArgument)
          return fmt::format("rank {} is not refused", peer);
      }
    }
  }
  return "";
}

inline std::string check_order_on_a_channel(Party& party, const Limits& limits) {
  const std::size_t large = std::min<std::size_t>(limits.largest_bytes, 70'000);
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 60; ++i)
    sizes.push_back(i % 7 == 3 ? large + i : (i * 37) % 300);  // eager and rendezvous mixed
  if (std::string trouble = exchange(party, sizes, true); !trouble.empty())
    return "receives first: " + trouble;
  return exchange(party, sizes, false);
}

inline std::string check_channels_are_independent(Party& party, const Limits&) {
  constexpr std::size_t kBytes = 100'000;
  constexpr std::array<std::uint8_t, 4> kLanes{0, 1, 7, 15};
  const std::uint32_t call = party.next_call();
  const std::uint32_t later_call = party.next_call();
  std::vector<transport::OperationRef> sends;
  for (transport::Transport* own : party.local()) {
    for (int peer = 0; peer < party.size(); ++peer) {
      for (const std::uint32_t each_call : {call, later_call}) {
        for (const std::uint8_t lane : kLanes) {
          const std::uint64_t tag = pattern_tag(own->rank(), peer, each_call * 256u + lane);
          sends.push_back(party.send(*own, peer, {each_call, lane}, pattern_message(kBytes, tag)));
        }
      }
    }
  }
  // Received in the opposite order, one channel after the other: a message that waits must not hold
  // up another channel.
  for (const std::uint32_t each_call : {later_call, call}) {
    for (auto lane = kLanes.rbegin(); lane != kLanes.rend(); ++lane) {
      std::vector<Message> messages;
      for (transport::Transport* own : party.local()) {
        for (int peer = 0; peer < party.size(); ++peer) {
          const std::uint64_t tag = pattern_tag(peer, own->rank(), each_call * 256u + *lane);
          messages.push_back(
              {party.receive(*own, peer, {each_call, *lane}, skewed(kBytes, 1)), kBytes, tag});
        }
      }
      if (std::string trouble = finish_and_check(party, {}, messages); !trouble.empty())
        return trouble;
    }
  }
  return party.finish_well(sends);
}

inline std::string check_empty_messages(Party& party, const Limits&) {
  if (std::string trouble = exchange(party, {0, 0, 0}, true); !trouble.empty()) return trouble;
  return exchange(party, {0, 5, 0}, false, 16);
}

inline std::string check_many_in_flight(Party& party, const Limits& limits) {
  const std::vector<std::size_t> sizes(static_cast<std::size_t>(limits.many), 24);
  if (std::string trouble = exchange(party, sizes, true); !trouble.empty())
    return "receives first: " + trouble;
  return exchange(party, sizes, false);
}

inline std::string check_sizes(Party& party, const Limits& limits) {
  std::vector<std::size_t> sizes;
  for (std::size_t power = 1; power <= limits.largest_bytes; power *= 4) {
    sizes.insert(sizes.end(), {power - 1, power, power + 1});
  }
  while (sizes.back() > limits.largest_bytes) sizes.pop_back();
  sizes.push_back(limits.largest_bytes);
  for (const std::size_t bytes : sizes) {
    if (std::string trouble = exchange(party, {bytes}, bytes % 2 == 0); !trouble.empty())
      return trouble;
  }
  return "";
}

inline std::string check_larger_space(Party& party, const Limits& limits) {
  return exchange(party, {1, 100, 70'000, limits.largest_bytes / 2}, true, 5'000);
}

inline std::string check_large_messages_in_a_row(Party& party, const Limits& limits) {
  const std::size_t large = limits.largest_bytes / 4;
  const std::vector<std::size_t> sizes{large + 3, 10, large, large / 2 + 1, 0, large - 1};
  if (std::string trouble = exchange(party, sizes, true, 9); !trouble.empty())
    return "receives first: " + trouble;
  return exchange(party, sizes, false, large);
}

inline std::string check_too_large_is_corrupt(Party& party, const Limits& limits) {
  struct Case {
    std::size_t sent, space;
  };
  for (const Case& each :
       {Case{100, 50}, Case{9, 8}, Case{1, 0}, Case{200'000, 100'000},
        Case{limits.largest_bytes, 1'000}, Case{limits.largest_bytes, limits.largest_bytes - 1}}) {
    const transport::Channel channel{party.next_call(), 1};
    std::vector<transport::OperationRef> receives;
    std::vector<transport::OperationRef> sends;
    for (transport::Transport* own : party.local()) {
      for (int peer = 0; peer < party.size(); ++peer) {
        Buffer space = Buffer::allocate(each.space + 64);
        std::memset(space.data(), 0x5a, space.size());
        receives.push_back(party.receive(*own, peer, channel, space.slice(0, each.space)));
        sends.push_back(party.send(*own, peer, channel, Buffer::allocate(each.sent)));
      }
    }
    if (std::string trouble = party.finish(receives); !trouble.empty()) return trouble;
    for (const transport::OperationRef& receive : receives) {
      if (receive->status.code() != Code::kCorrupt) {
        return fmt::format("{} bytes into {}: expected Corrupt, got {}", each.sent, each.space,
                           code_name(receive->status.code()));
      }
      for (std::size_t i = 0; i < 64; ++i) {
        if (receive->buffer.data()[each.space + i] != std::byte{0x5a})
          return "bytes behind the receive buffer were written";
      }
    }
    for (transport::Transport* own : party.local()) own->close(channel);
    if (std::string trouble = party.finish(sends); !trouble.empty())
      return "the sender of a message that was too large: " + trouble;
    if (std::string trouble = exchange(party, {1'000}, true); !trouble.empty())
      return "after a message that was too large: " + trouble;
  }
  return "";
}

inline std::string check_cancel(Party& party, const Limits& limits) {
  std::vector<std::pair<transport::Transport*, transport::OperationRef>> cancelled;
  const transport::Channel channel{party.next_call(), 2};
  for (transport::Transport* own : party.local()) {
    for (int peer = 0; peer < party.size(); ++peer) {
      for (const std::size_t bytes : {std::size_t{16}, limits.largest_bytes})
        cancelled.emplace_back(own, party.receive(*own, peer, channel, Buffer::allocate(bytes)));
    }
  }
  for (const auto& [own, operation] : cancelled) {
    party.cancel(*own, operation);
    if (!operation->done || operation->status.code() != Code::kInProgress)
      return "a cancelled receive is not done with InProgress";
    party.cancel(*own, operation);  // twice is harmless
  }
  if (std::string trouble = party.barrier(); !trouble.empty()) return trouble;

  const transport::Channel unmatched{party.next_call(), 2};
  for (transport::Transport* own : party.local()) {
    for (int peer = 0; peer < party.size(); ++peer) {
      const transport::OperationRef send =
          party.send(*own, peer, unmatched, pattern_message(limits.largest_bytes, 1));
      if (send->done) continue;
      party.cancel(*own, send);
      if (!send->done || send->status.code() != Code::kInProgress)
        return "a cancelled send is not done with InProgress";
    }
  }
  if (std::string trouble = exchange(party, {10, 100'000}, true); !trouble.empty()) return trouble;
  if (std::string trouble = party.barrier(); !trouble.empty()) return trouble;
  for (transport::Transport* own : party.local()) own->close(unmatched);
  return exchange(party, {10, 100'000}, false);
}

// A call that ends early leaves messages behind: its sender must not wait for ever, and later calls
// must not see them.
inline std::string check_close_drops(Party& party, const Limits& limits) {
  const transport::Channel channel{party.next_call(), 1};
  std::vector<transport::OperationRef> sends;
  for (transport::Transport* own : party.local()) {
    for (int peer = 0; peer < party.size(); ++peer) {
      for (const std::size_t bytes :
           {std::size_t{10}, limits.largest_bytes / 2, limits.largest_bytes}) {
        sends.push_back(party.send(*own, peer, channel, Buffer::allocate(bytes)));
      }
    }
  }
  if (std::string trouble = exchange(party, {1'000}, true); !trouble.empty()) return trouble;
  for (transport::Transport* own : party.local()) own->close(channel);
  if (!limits.drops_while_idle) return exchange(party, {1'000, 100'000}, true);
  if (std::string trouble = party.finish_well(sends); !trouble.empty())
    return "sends on a channel that the receiver closed: " + trouble;
  return exchange(party, {1'000, 100'000}, true);
}

inline std::string check_signals(Party& party, const Limits&) {
  constexpr int kEach = 2;
  const auto text_of = [](int from, int to, int i) {
    return fmt::format("signal {} from {} to {}", i, from, to);
  };
  for (transport::Transport* own : party.local()) {
    for (int peer = 0; peer < party.size(); ++peer) {
      for (int i = 0; i < kEach; ++i) {
        transport::Signal signal;
        signal.code = 100 * own->rank() + i;
        signal.culprit = peer;
        const std::string text = text_of(own->rank(), peer, i);
        std::memcpy(signal.text.data(), text.data(), text.size());
        own->signal(peer, signal);
      }
    }
  }
  const std::size_t expected =
      static_cast<std::size_t>(party.size() * kEach) * party.local().size();
  std::set<std::string> seen;
  std::string trouble;
  const auto poll = [&] {
    for (transport::Transport* own : party.local()) {
      for (transport::Signal signal; own->poll_signal(signal);) {
        const int i = signal.code - 100 * signal.from;
        if (signal.culprit != own->rank() ||
            signal.text.data() != text_of(signal.from, own->rank(), i))
          trouble = "a signal has other bytes";
        if (!seen.insert(signal.text.data()).second) trouble = "a signal came twice";
      }
    }
    return !trouble.empty() || seen.size() == expected;
  };
  if (std::string stuck = party.pump_until(poll); !stuck.empty())
    return fmt::format("{} of {} signals came: {}", seen.size(), expected, stuck);
  return trouble;
}

inline std::string check_clock(Party& party, const Limits&) {
  transport::Transport& own = *party.local().front();
  double last = own.now();
  for (int i = 0; i < 1'000; ++i) {
    const double now = own.now();
    if (now < last) return "the clock went backwards";
    last = now;
  }
  if (std::string trouble = party.barrier(); !trouble.empty()) return trouble;
  const double until = own.now() + 0.01;
  std::uint64_t turns = 0;
  while (own.now() < until)
    own.idle(++turns, until);  // would hang, were idle() not to come back or time to stand still
  return party.barrier();
}

// All of it at once: what goes over each pair and lane follows from a seed that all ranks share; in
// which order each posts does not.
inline std::string check_random_traffic(Party& party, const Limits& limits) {
  struct Stream {
    transport::Transport* own;
    bool sends;
    int from, to;
    std::uint8_t lane;
    SeededRandom content;
    std::uint64_t left;
  };
  for (std::uint64_t round = 0; round < 5; ++round) {
    const std::uint32_t call = party.next_call();
    std::vector<Stream> streams;
    for (transport::Transport* own : party.local()) {
      for (int peer = 0; peer < party.size(); ++peer) {
        for (const bool is_send : {true, false}) {
          for (std::uint8_t lane = 0; lane < 3; ++lane) {
            const int from = is_send ? own->rank() : peer;
            const int to = is_send ? peer : own->rank();
            Stream stream{own, is_send, from,
                          to,  lane,    SeededRandom(pattern_tag(from, to, round * 8 + lane)),
                          0};
            stream.left = stream.content.below(12);
            if (stream.left > 0) streams.push_back(stream);
          }
        }
      }
    }
    std::vector<transport::OperationRef> sends;
    std::vector<Message> messages;
    SeededRandom order(pattern_tag(party.local().front()->rank(), 0, 1'000 + round));
    while (!streams.empty()) {
      const std::size_t at = order.below(streams.size());
      Stream& stream = streams[at];
      const std::size_t bytes = stream.content.chance(0.1)
                                    ? stream.content.below(limits.largest_bytes / 8)
                                    : stream.content.below(2'000);
      const std::uint64_t tag = stream.content.next();
      const transport::Channel channel{call, stream.lane};
      if (stream.sends) {
        sends.push_back(party.send(*stream.own, stream.to, channel, pattern_message(bytes, tag)));
      } else {
        messages.push_back(
            {party.receive(*stream.own, stream.from, channel, skewed(bytes, tag % 5)), bytes, tag});
      }
      if (--stream.left == 0) {
        std::swap(stream, streams.back());
        streams.pop_back();
      }
      bool first = true;
      const auto one_turn = [&first] { return !std::exchange(first, false); };
      if (order.chance(0.2)) {
        if (std::string trouble = party.pump_until(one_turn); !trouble.empty()) return trouble;
      }
    }
    if (std::string trouble = finish_and_check(party, std::move(sends), messages); !trouble.empty())
      return trouble;
  }
  return "";
}

struct CheckRow {
  const char* name;
  std::string (*run)(Party&, const Limits&);
};

inline constexpr std::array kChecks{
    CheckRow{"Identity", check_identity},
    CheckRow{"RefusesBadPeer", check_refuses_bad_peer},
    CheckRow{"OrderOnAChannel", check_order_on_a_channel},
    CheckRow{"ChannelsAreIndependent", check_channels_are_independent},
    CheckRow{"EmptyMessages", check_empty_messages},
    CheckRow{"ManyInFlight", check_many_in_flight},
    CheckRow{"Sizes", check_sizes},
    CheckRow{"LargerSpace", check_larger_space},
    CheckRow{"LargeMessagesInARow", check_large_messages_in_a_row},
    CheckRow{"TooLargeIsCorrupt", check_too_large_is_corrupt},
    CheckRow{"Cancel", check_cancel},
    CheckRow{"CloseDrops", check_close_drops},
    CheckRow{"Signals", check_signals},
    CheckRow{"Clock", check_clock},
    CheckRow{"RandomTraffic", check_random_traffic},
};

// Runs every check; the answer names those that failed, and ends at the first, as the ranks may be
// out of step then.
inline std::string run_all(Party& party, const Limits& limits = {},
                           const std::function<void(const char*)>& passed = {}) {
  for (const CheckRow& check : kChecks) {
    if (std::string trouble = check.run(party, limits); !trouble.empty())
      return fmt::format("{}: {}", check.name, trouble);
    if (passed) passed(check.name);
  }
  return "";
}

}  // namespace sparcl::conformance
