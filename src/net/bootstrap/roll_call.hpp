#pragma once
// Who has come, of how many: the root's book, without any socket.

#include <map>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/bootstrap/bootstrap_messages.hpp"

namespace sparcl::net {

class RollCall {
 public:
  // An error is everybody's: Mismatch where ranks speak of different numbers of ranks, InvalidUsage
  // where two give one rank.
  Status admit(Join join);

  int came() const { return static_cast<int>(joined_.size()); }
  int nranks() const { return nranks_; }  // 0: nobody has come
  bool is_complete() const { return nranks_ > 0 && came() == nranks_; }
  const Join* find(int rank) const;

  std::string missing_numbers() const;  // "2, 5-7"
  std::string missing() const;          // "ranks 2, 5-7 of 8"

  // What all ranks are sent. is_complete(); InvalidArgument if it would be absurdly large.
  Result<std::vector<std::byte>> table() const;

 private:
  int nranks_ = 0;
  std::map<int, Join> joined_;  // not an array of nranks_: nobody's word alone takes memory
};

}  // namespace sparcl::net
