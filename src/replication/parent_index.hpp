#pragma once
// The replicas that can be parents, by the updates that they have. The replicas nearest to the
// publisher come first.

#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace sparcl::replication {

class ParentIndex {
 public:
  struct Stock {
    enum class Kind : std::uint8_t {
      kNext,    // the next update
      kAnchor,  // an anchor that is on its way
      kHeld,    // a version, of which it makes an anchor
    };
    Kind kind = Kind::kNext;
    std::uint64_t version = 0;  // of an anchor, or held
    friend auto operator<=>(const Stock&, const Stock&) = default;
  };
  struct Place {
    int depth = 0;  // steps up to the publisher
    std::uint64_t id = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  enum class Answer : std::uint8_t {
    kTake,
    kSkip,
    kSkipDepth
  };  // kSkipDepth: nor any other of that depth

  void add(const Stock& stock, const Place& place) { places_[stock].insert(place); }
  void remove(const Stock& stock, const Place& place) {
    const auto found = places_.find(stock);
    found->second.erase(place);
    if (found->second.empty()) places_.erase(found);
  }

  // The first one that has this and that `ask` takes.
  template <class Ask>
  std::optional<Place> first(const Stock& stock, Ask&& ask) const {
    const auto found = places_.find(stock);
    if (found == places_.end()) return {};
    const std::set<Place>& places = found->second;
    for (auto each = places.begin(); each != places.end();) {
      const Answer answer = ask(*each);
      if (answer == Answer::kTake) return *each;
      each = answer == Answer::kSkip ? std::next(each) : places.lower_bound({each->depth + 1, 0});
    }
    return {};
  }

 private:
  std::map<Stock, std::set<Place>> places_;
};

}  // namespace sparcl::replication
