#pragma once
// What the ranks of a transport that still live agree on, although more of them may die meanwhile:
// one set of the dead, and whether all that live said yes. All that live on come to the same end;
// one that dies may have come to another, which died with it.
//
// A consensus with a rotating coordinator (Chandra and Toueg, J. ACM 43(2), 1996), and a detector
// of deaths that is believed: the coordinator is the lowest rank that lives as far as one knows,
// its rank is the ballot, and it waits for everybody that lives. Who has come to an end tells all
// the others before it goes.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

struct Verdict {
  std::vector<bool> dead;  // by rank
  bool all_said_yes = true;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

class SurvivorAgreement {
 public:
  // Nobody else uses the channel. The transport must know of deaths: of a dead rank only the
  // failure of a receive tells.
  SurvivorAgreement(Transport& transport, Channel channel);
  ~SurvivorAgreement();
  SurvivorAgreement(const SurvivorAgreement&) = delete;
  SurvivorAgreement& operator=(const SurvivorAgreement&) = delete;

  // Collective over the living: their n-th calls belong together. Timeout names whom this rank
  // waits for, or whom the coordinator does; RemoteError: the others have given this rank up.
  Result<Verdict> agree(bool yes, double timeout_s);

  // The same in turns that do not block: begin(), then step() until ended().
  void begin(bool yes);
  void step();
  bool ended() const { return verdict_.has_value(); }
  const Verdict& verdict() const { return *verdict_; }

 private:
  struct Message {
    enum class Kind : std::uint8_t { kView = 0, kDecision = 1, kAwaited = 2 };
    std::uint32_t round = 0;  // which call of agree(), from 1
    Kind kind = Kind::kView;
    std::int32_t ballot = -1;
    Verdict content;  // kAwaited: for "dead" read "not heard yet"
  };
  struct Peer {
    OperationRef receive;
    std::deque<Message> early;    // those of later rounds behind those of this one
    std::optional<Verdict> view;  // what it told this rank as the coordinator
    std::optional<Message> decision;
    std::vector<bool> awaited;  // by it as the coordinator, as it said
    bool is_dead = false;
  };

  void listen(int rank);
  void hear(int rank);
  void take(Peer& peer, Message message);
  void follow();
  void lead();
  void leave_out_the_accused(Verdict& verdict) const;
  void decide(const Verdict& verdict, std::int32_t ballot);
  void send(int rank, const Message& message);
  void bury(int rank);
  int coordinator() const;
  Verdict own_view() const;
  std::vector<bool> not_heard() const;
  void tell_whom_it_awaits();
  std::string awaited() const;
  Buffer serialise(const Message& message) const;
  std::optional<Message> parse(std::span<const std::byte> bytes) const;

  Transport& transport_;
  Channel channel_;
  int rank_;
  std::vector<Peer> peers_;
  std::vector<OperationRef> sends_;
  std::uint32_t round_ = 0;
  bool yes_ = true;
  bool has_told_awaited_ = false;
  std::int32_t promised_ = -1;  // to which coordinator this rank has told its view
  std::optional<Verdict> verdict_;
};

}  // namespace sparcl::transport
