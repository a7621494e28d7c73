#pragma once
// The rounds of an aggregation: a state machine without clock and socket. Contributions and times
// go in; lists of contributions that count come out. The owner keeps their entries, sums them once
// a round is closed, and says how that ended.
//
//   open ── enough contributions, or a time ──► closed ── committed() or failed() ──► open (next)
//
// A contribution that comes while a round is closed, or after it, counts in the next round.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/aggregate/round/contribution.hpp"
#include "src/aggregate/round/fate_book.hpp"
#include "src/aggregate/round/membership.hpp"
#include "src/aggregate/round/round_options.hpp"

namespace sparcl::aggregate {

// The answer to a contribution.
struct Answer {
  enum class Kind : std::uint8_t {
    kListed,     // it counts in `round`, or will: also when it comes a second time
    kCommitted,  // it counted in `round`
    kRefused,    // it never counts: the worker adds it to its residual
    kEarly,      // its round has not begun: the worker keeps it, and offers it again
    kForgotten   // it is so old that its fate is no longer known
  };
  Kind kind = Kind::kListed;
  std::uint64_t round = 0;
  bool is_new = false;  // listed just now: its entries are needed
  std::string reason;   // of a refusal
  Listed listed{};      // if it is new: how it counts
};

// A closed round.
struct Closing {
  std::uint64_t round = 0;
  std::vector<Listed> listed;      // by rounds late, then by slot: the order of the sum
  std::uint32_t active = 0;        // slots of the workers that were members when the round began
  std::vector<WorkerId> expelled;  // active ones that did not come by the deadline
  bool is_short = false;           // of what it needs: only failed() may follow
};

class Round {
 public:
  explicit Round(const RoundOptions& options, std::uint64_t first = 0);

  // --- workers. A new one is awaited from the next round on, but its contribution counts at once.
  // See Membership::join().
  std::optional<std::uint32_t> join(WorkerId worker, const Seat& seat = {});
  void leave(WorkerId worker);

  // --- contributions
  Answer offer(const Contribution& given, double now);
  // What offer() would answer, if the contribution has come before or its time is not now.
  std::optional<Answer> find(const ContributionId& id) const;
  // It was committed before this object was made.
  void remember(const ContributionId& id, std::uint64_t in_round) {
    fates_.note(id, {Fate::kCommitted, in_round});
  }

  // The entries of one that is listed are lost: it is as if it had not come.
  void withdraw(const ContributionId& id);

  // --- time, monotonic seconds
  void advance(double now);
  double wakes_at() const;  // when advance() may have an effect; infinity: never

  // --- the end of a round
  bool is_closed() const { return is_closed_; }
  std::uint32_t listed() const { return is_closed_ ? 0 : on_time_; }  // on time, in the open round
  const Membership& membership() const { return membership_; }
  const Closing& closing() const { return closing_; }
  void committed();
  // All of its contributions are refused.
  void failed(const std::string& reason);

  std::uint64_t number() const { return number_; }
  double grace_s() const;  // the window that a quorum would open now

 private:
  Answer known(const ContributionId& id, const FateNote& note) const;
  void note_refused(const ContributionId& id, double now);
  std::string why_refused(const Contribution& given) const;
  Listed list(const Contribution& given, double now);
  void note_quorum(double now);
  void withdraw_open(const ContributionId& id, std::uint64_t in_round);
  void withdraw_closed(const ContributionId& id);
  bool is_full() const;
  void close_if_full();
  void close_if_over();
  void close(bool is_short);
  void begin(std::uint64_t number);
  void learn_grace(const ContributionId& id, double now);

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  RoundOptions options_;
  Membership membership_;
  FateBook fates_;
  std::map<ContributionId, std::string> reasons_;  // of refusals, while their fates are known

  std::uint64_t number_;
  std::map<std::uint64_t, std::map<std::uint32_t, Listed>> listed_;  // by rounds late, by slot
  std::set<WorkerId> missing_;  // active ones without a contribution to this round
  std::set<WorkerId> active_;   // members when the round began, and those that joined before a
                                // contribution came
  std::uint32_t on_time_ = 0;   // contributions to this round
  bool has_refused_ = false;    // a contribution to this round was refused
  double deadline_ = kNever, grace_ends_ = kNever;

  bool is_closed_ = false;
  Closing closing_;

  // The last round with a quorum: when it had it, and which workers were to come.
  struct Tail {
    std::uint64_t round = 0;
    double quorum_at = kNever;
    std::set<WorkerId> awaited;
  };
  Tail tail_;
  double usual_tail_s_ = -1;  // -1: none is known
};

}  // namespace sparcl::aggregate
