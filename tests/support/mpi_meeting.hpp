#pragma once
// The ranks of mpirun, over the transport that SPARCL_TRANSPORT names.

#include "sparcl/sparcl_mpi.h"
#include "tests/support/meeting.hpp"

namespace sparcl::test {

class MpiMeeting final : public Meeting {
 public:
  MpiMeeting() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool takes_config() const override { return true; }
  bool takes_environment() const override { return true; }
  void meet() override { MPI_Barrier(MPI_COMM_WORLD); }
  sparclResult_t make(sparclComm_t* comm, int ranks, const sparclConfig_t* config,
                      const Variables& variables) override {
    *comm = nullptr;
    const ScopedVariables scope(variables);
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank_ < ranks ? 0 : 1, 0, &part);
    const sparclResult_t made =
        rank_ < ranks ? sparclCommInitMpi(comm, part, config) : sparclSuccess;
    MPI_Comm_free(&part);
    return made;
  }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace sparcl::test
