#pragma once
// How ranks of the rank program know who they are, and meet. Two bodies, each linked into a program
// of its own: id_start.cpp (rank_program) and mpi_start.cpp (mpi_rank_program).

#include <functional>
#include <string>

#include "sparcl/sparcl.h"

namespace sparcl::test {

// Of the environment, SPARCL_TEST_<name>.
std::string variable(const char* name, const char* fallback);

class RankStart {
 public:
  RankStart();
  int rank() const { return rank_; }
  int size() const { return size_; }

  // tell_id: called with the unique id, in hex, by the rank that makes it.
  sparclResult_t meet(sparclComm_t* comm, const std::function<void(const std::string&)>& tell_id);
  // After the communicator is gone. false: a rank is dead, and nobody may wait for the others any
  // more.
  void end(bool all_alive);

 private:
  int rank_ = -1, size_ = 0;
};

}  // namespace sparcl::test
