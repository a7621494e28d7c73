#pragma once
// What replicas were given, by what their sessions were told at their beginning: one whose connection broke names it, and counts
// on. A name or an address would be anybody's word.

#include <cstdint>
#include <deque>
#include <map>

#include "src/replication/message.hpp"

namespace sparcl::replication {

class ReceiptBook {
 public:
  static constexpr std::size_t kMaxReceipts = 4096;  // the oldest ones are forgotten

  // Up to this version.
  void note(const Receipt& receipt, std::uint64_t version) {
    const auto [entry, is_new] = given_.try_emplace(receipt, version);
    entry->second = version;
    if (is_new) order_.push_back(receipt);
    if (order_.size() <= kMaxReceipts) return;
    given_.erase(order_.front());
    order_.pop_front();
  }
  std::uint64_t given(const Receipt& receipt) const {
    const auto found = given_.find(receipt);
    return found == given_.end() ? 0 : found->second;
  }

 private:
  std::map<Receipt, std::uint64_t> given_;
  std::deque<Receipt> order_;
};

}  // namespace sparcl::replication
