#pragma once
// An ordered set that knows its element of one rank at any time: both the set and the rank change
// little by little.

#include <cstddef>
#include <iterator>
#include <optional>
#include <set>

namespace sparcl::replication {

template <class Key>
class RankedSet {
 public:
  const std::set<Key>& keys() const { return keys_; }

  void insert(const Key& key) {
    if (!keys_.insert(key).second) return;
    if (at_ && key < **at_) {
      --*at_;
    } else if (!at_ && keys_.size() == rank_ + 1) {
      at_ = std::prev(keys_.end());
    }
  }

  void erase(const Key& key) {
    const auto found = keys_.find(key);
    if (found == keys_.end()) return;
    if (at_ && !(**at_ < key) && ++*at_ == keys_.end()) at_.reset();
    keys_.erase(found);
  }

  // From 0, the least. As many steps as it is from where it was.
  void set_rank(std::size_t rank) {
    if (rank >= keys_.size()) {
      rank_ = rank;
      at_.reset();
      return;
    }
    if (!at_) {
      rank_ = keys_.size() - 1;
      at_ = std::prev(keys_.end());
    }
    for (; rank_ < rank; ++rank_) ++*at_;
    for (; rank_ > rank; --rank_) --*at_;
  }

  // The element of that rank; nothing where there are not as many.
  std::optional<Key> at_rank() const { return at_ ? std::optional<Key>(**at_) : std::nullopt; }

 private:
  std::set<Key> keys_;
  std::size_t rank_ = 0;
  std::optional<typename std::set<Key>::iterator> at_;  // of rank_
};

}  // namespace sparcl::replication
