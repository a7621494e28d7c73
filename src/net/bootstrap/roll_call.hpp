#pragma once
// The root's list of the ranks that have come, without any socket.

#include <map>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/bootstrap/bootstrap_messages.hpp"

namespace sparcl::net {

class RollCall {
 public:
  // An error is sent to all ranks: Mismatch if ranks gave different numbers of ranks, InvalidUsage
  // if two gave the same rank.
  Status admit(Join join);

  int came() const { return static_cast<int>(joined_.size()); }
  int nranks() const { return nranks_; }  // 0: no rank has come
  bool is_complete() const { return nranks_ > 0 && came() == nranks_; }
  const Join* find(int rank) const;

  std::string missing_numbers() const;  // "2, 5-7"
  std::string missing() const;          // "ranks 2, 5-7 of 8"

  // The message for all ranks. Requires is_complete(); InvalidArgument if it would be absurdly
  // large.
  Result<std::vector<std::byte>> table() const;

 private:
  int nranks_ = 0;
  std::map<int, Join>
      joined_;  // not an array of nranks_: a rank's claim alone must not take memory
};

}  // namespace sparcl::net
