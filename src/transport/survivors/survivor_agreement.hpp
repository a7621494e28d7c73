#pragma once
// The agreement of a transport's live ranks, although more of them may die meanwhile: one set of
// the dead, and whether all live ranks said yes. All ranks that survive reach the same decision. A
// rank that dies may have reached another, which is lost with it.
//
// A consensus with a rotating coordinator (Chandra and Toueg, J. ACM 43(2), 1996), and a failure
// detector that is trusted. The coordinator is the lowest rank that is alive as far as a rank
// knows. Its rank is the ballot, and it waits for all live ranks. A rank that has decided tells all
// others before it leaves.

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
  // The channel must have no other user. The transport must detect deaths: a dead rank shows only
  // as a failed receive.
  SurvivorAgreement(Transport& transport, Channel channel);
  ~SurvivorAgreement();
  SurvivorAgreement(const SurvivorAgreement&) = delete;
  SurvivorAgreement& operator=(const SurvivorAgreement&) = delete;

  // Collective over the live ranks: their n-th calls belong together. Timeout names the rank that
  // this rank or the coordinator waits for. RemoteError: the other ranks have given this rank up.
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
    Verdict content;  // kAwaited: "dead" then means "not heard yet"
  };
  struct Peer {
    OperationRef receive;
    std::deque<Message> early;    // messages of later rounds after those of this round
    std::optional<Verdict> view;  // the view that it sent to this rank as the coordinator
    std::optional<Message> decision;
    std::vector<bool> awaited;  // by it as the coordinator, by its own message
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
  std::int32_t promised_ = -1;  // the coordinator that has this rank's view
  std::optional<Verdict> verdict_;
};

}  // namespace sparcl::transport
