#pragma once
// UCX's requirements of this machine. With less, UCX 1.13 aborts, is killed by a signal, or gives
// an unclear error. They are therefore checked before UCX is called.

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "src/base/finding.hpp"

namespace sparcl::transport {

// Whether UCX_TLS allows any of these lanes ("all" stands for itself).
bool ucx_may_use(std::initializer_list<std::string_view> names);

// A worker of UCX 1.13 takes this much of /dev/shm, in one file: 4.3 MB, and some room.
inline constexpr std::uint64_t kUcxSharedBytes = std::uint64_t{4608} << 10;

// Free space of the folder where UCX shares memory (UCX_POSIX_DIR, else /dev/shm).
Finding check_ucx_shared_memory();
// RLIMIT_FSIZE: a larger file raises a signal.
Finding check_ucx_file_size();
// RLIMIT_NOFILE, for `ranks` ranks in one communicator.
Finding check_ucx_descriptors(int ranks);
// Starts threads and ends them.
Finding check_ucx_threads();
// Addresses that UCX can use.
Finding check_ucx_network();

// All of these. A rank whose findings are not all ok refuses to start (status_of).
std::vector<Finding> check_ucx_needs(int ranks);

}  // namespace sparcl::transport
