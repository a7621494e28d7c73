#pragma once
// Records which aggregator has the entries of each contribution that counts: this one, or one of
// its branches. Pure: no socket, no thread.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "src/aggregate/round/contribution.hpp"
#include "src/elastic/aggregator_messages.hpp"

namespace sparcl::elastic {

using BranchId = std::uint64_t;    // of a connection
constexpr BranchId kNoBranch = 0;  // the entries are here

class BranchBook {
 public:
  using Place = std::pair<std::uint64_t, std::uint32_t>;  // rounds late, slot

  // It counts in round listed.id.round + listed.rounds_late.
  void note(const aggregate::Listed& listed, BranchId branch);
  // Whether another contribution counts at the same slot of the same tree.
  bool is_taken(const aggregate::Listed& listed) const;
  // The round in which it counts, and which branch has its entries.
  struct Where {
    std::uint64_t round = 0;
    BranchId branch = kNoBranch;
    aggregate::Listed listed{};
  };
  std::optional<Where> find(const aggregate::ContributionId& id) const;
  void forget(const aggregate::ContributionId& id);
  void forget(const aggregate::Listed& listed);  // faster
  void forget_round(std::uint64_t round) { rounds_.erase(round); }
  void forget_before(std::uint64_t round) {
    rounds_.erase(rounds_.begin(), rounds_.lower_bound(round));
  }
  void clear() { rounds_.clear(); }

  std::vector<aggregate::Listed> listed(std::uint64_t round) const;  // that count in the round
  // Those that have entries of the round.
  std::set<BranchId> branches_of(std::uint64_t round) const;
  std::vector<Place> places_of(std::uint64_t round, BranchId branch) const;
  // Whether the branch has entries of the round in this subtree.
  bool has_some(std::uint64_t round, BranchId branch, std::uint64_t rounds_late,
                const aggregate::Subtree& subtree) const;
  // The widest spans of slots that hold contributions of this branch and of no other aggregator:
  // its sums of any subtrees in them are sums of the whole tree. Within `outer` ones, if they are
  // given.
  std::vector<Collect::Span> spans_of(std::uint64_t round, BranchId branch) const;
  std::vector<Collect::Span> spans_of(std::uint64_t round, BranchId branch,
                                      std::span<const Collect::Span> outer) const;
  // Its sums of the round are here.
  void delivered(std::uint64_t round, BranchId branch);
  // Those whose entries only the branch has.
  std::vector<aggregate::Listed> all_of(BranchId branch) const;

 private:
  struct Entry {
    aggregate::Listed listed;
    BranchId branch = kNoBranch;
  };
  std::map<std::uint64_t, std::map<Place, Entry>> rounds_;
};

}  // namespace sparcl::elastic
