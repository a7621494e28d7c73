#pragma once
// NCCL's functions, from a library that is loaded when first asked for: sparcl links none. Numbers
// and signatures are those of nccl.h (checked against it in tests/fakes/nccl where it is
// installed).

#include <array>
#include <cstddef>
#include <string>

#include "src/base/status.hpp"

namespace sparcl::transport {

struct NcclId {
  char internal[128];
};

struct NcclConfig {  // the part of ncclConfig_t that version 2.14 has: NCCL reads what `version`
                     // covers, and fills in the rest
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

struct NcclLibrary {
  using Comm = struct ncclComm*;
  using Result_t = int;
  static constexpr Result_t kSuccess = 0, kInProgress = 7;

  std::string path;
  int version = 0;  // 10000 * major + 100 * minor + patch

  Result_t (*get_unique_id)(NcclId* id) = nullptr;
  Result_t (*init_rank)(Comm* comm, int ranks, NcclId id, int rank, NcclConfig* config) = nullptr;
  Result_t (*count)(Comm comm, int* count) = nullptr;
  Result_t (*user_rank)(Comm comm, int* rank) = nullptr;
  Result_t (*device)(Comm comm, int* device) = nullptr;
  Result_t (*async_error)(Comm comm, Result_t* error) = nullptr;
  Result_t (*finalize)(Comm comm) = nullptr;
  Result_t (*destroy)(Comm comm) = nullptr;
  Result_t (*abort)(Comm comm) = nullptr;
  Result_t (*all_reduce)(const void* send, void* receive, std::size_t count, int type, int op,
                         Comm comm, void* stream) = nullptr;
  Result_t (*broadcast)(const void* send, void* receive, std::size_t count, int type, int root,
                        Comm comm, void* stream) = nullptr;
  Result_t (*all_gather)(const void* send, void* receive, std::size_t count, int type, Comm comm,
                         void* stream) = nullptr;
  Result_t (*send)(const void* send, std::size_t count, int type, int peer, Comm comm,
                   void* stream) = nullptr;
  Result_t (*receive)(void* receive, std::size_t count, int type, int peer, Comm comm,
                      void* stream) = nullptr;
  Result_t (*group_start)() = nullptr;
  Result_t (*group_end)() = nullptr;
  const char* (*error_string)(Result_t result) = nullptr;
  const char* (*last_error)(Comm comm) = nullptr;

  // "NCCL: what: its text". comm may be nullptr.
  Status status_of(Result_t result, const char* what, Comm comm) const;
};

// This version introduced non-blocking communicators, which the deadlines of this library need.
constexpr int kOldestNccl = 21400;
std::string nccl_version_text(int version);  // "2.28.9"

// From SPARCL_NCCL_LIBRARY. Loaded once, for good. An error (no library, an old one) is not kept.
Result<const NcclLibrary*> load_nccl();

}  // namespace sparcl::transport
