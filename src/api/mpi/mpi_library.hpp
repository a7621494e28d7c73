#pragma once
// Whether the program, this library and the process have one MPI. The handles of the two families
// (Open MPI; MPICH, Intel MPI, MVAPICH, Cray MPICH) have different types: a call with a handle of
// the other family crashes. Under the other family's launcher, each process is a program of one
// rank.

#include <cstddef>
#include <string>

#include "src/base/status.hpp"

namespace sparcl::api {

// The known facts. A family is "Open MPI" or "MPICH"; "": another one.
struct MpiFacts {
  std::string built_family;        // of the headers that this library was compiled with
  std::size_t built_handle_bytes;  // of an MPI_Comm
  std::string program_family;      // of the headers that the program was compiled with
  std::size_t program_handle_bytes;
  std::string running;       // MPI_Get_library_version
  bool has_other_loaded;     // symbols of the other family are in the process, too
  int launched = 1;          // processes, by the other family's launcher
  bool own_launcher = true;  // the own family's launcher started this process
  int world_size = 0;        // of MPI_COMM_WORLD; 0: not known
};

MpiFacts find_mpi_facts(const char* program_family, std::size_t program_handle_bytes);
Status check_mpi_facts(const MpiFacts& facts);

}  // namespace sparcl::api
