#pragma once
// The replicas that others can take updates from, by what they have for them, those nearest to the publisher first.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace sparcl::replication {

class ParentIndex {
 public:
  struct Stock {
    enum class Kind : std::uint8_t { kNext, kAnchor, kBytes };  // the next update; an anchor that is on its way; what it holds
    Kind kind = Kind::kNext;
    std::uint64_t version = 0;  // of an anchor, or of what it holds
    friend auto operator<=>(const Stock&, const Stock&) = default;
  };
  struct Place {
    int depth = 0;  // steps up to the publisher
    std::uint64_t id = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  enum class Answer : std::uint8_t { kTake, kSkip, kSkipDepth };  // kSkipDepth: nor any other of that depth

  void add(const Stock& stock, const Place& place) { places_[stock].insert(place); }
  void remove(const Stock& stock, const Place& place) {
    const auto found = places_.find(stock);
    found->second.erase(place);
    if (found->second.empty()) places_.erase(found);
  }

  // The first one that has something from `least` to `most`, is before `best`, and that `ask` takes; else `best`.
  template <class Ask>
  std::optional<Place> first(const Stock& least, const Stock& most, std::optional<Place> best, Ask&& ask) const {
    for (auto stock = places_.lower_bound(least); stock != places_.end() && stock->first <= most; ++stock) {
      const std::set<Place>& places = stock->second;
      for (auto each = places.begin(); each != places.end() && (!best || *each < *best);) {
        const Answer answer = ask(*each);
        if (answer == Answer::kTake) {
          best = *each;
        } else if (answer == Answer::kSkip) {
          ++each;
        } else {
          each = places.lower_bound({each->depth + 1, 0});
        }
      }
    }
    return best;
  }

 private:
  std::map<Stock, std::set<Place>> places_;
};

}  // namespace sparcl::replication
