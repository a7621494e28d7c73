#pragma once
// The versions that replicas were given, by the receipts of their sessions. A replica whose
// connection broke names its receipt, and counts on. A name or an address would be anybody's word.

#include <cstdint>
#include <deque>
#include <map>

#include "src/replication/message.hpp"

namespace sparcl::replication {

class ReceiptBook {
 public:
  static constexpr std::size_t kMaxReceipts = 4096;  // the oldest ones are forgotten

  struct Given {
    std::uint64_t version = 0;  // up to this one
    bool has_bytes = false;     // some of it cost the replica the bytes of a whole update
  };
  void note(const Receipt& receipt, const Given& given) {
    const auto [entry, is_new] = given_.try_emplace(receipt, given);
    entry->second = given;
    if (is_new) order_.push_back(receipt);
    if (order_.size() <= kMaxReceipts) return;
    given_.erase(order_.front());
    order_.pop_front();
  }
  Given given(const Receipt& receipt) const {
    const auto found = given_.find(receipt);
    return found == given_.end() ? Given() : found->second;
  }

 private:
  std::map<Receipt, Given> given_;
  std::deque<Receipt> order_;
};

}  // namespace sparcl::replication
