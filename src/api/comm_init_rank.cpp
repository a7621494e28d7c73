// Communicators without MPI: ranks meet by a unique id, and UCX carries their bytes.

#include <fmt/format.h>

#include <cstring>

#include "src/api/comm.hpp"
#include "src/api/error.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/wait_warning.hpp"
#include "src/net/bootstrap/bootstrap.hpp"
#include "src/net/bootstrap/bootstrap_root.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::guarded;
using sparcl::flight::CommTrail;

namespace {

static_assert(sizeof(sparclUniqueId) == sparcl::net::kUniqueIdBytes);

constexpr double kDeclineSeconds = 2;

Status check_arguments(int nranks, int rank, const sparclConfig_t* config) {
  if (nranks < 1)
    return Status(Code::kInvalidArgument, fmt::format("nranks is {}, must be at least 1", nranks));
  if (nranks > sparcl::net::kMaxRanks) {
    return Status(Code::kInvalidArgument,
                  fmt::format("nranks is {}, must be at most {}", nranks, sparcl::net::kMaxRanks));
  }
  if (rank < 0 || rank >= nranks) {
    return Status(Code::kInvalidArgument,
                  fmt::format("rank {} of {}: ranks are 0 to nranks - 1", rank, nranks));
  }
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_config(config));
  SPARCL_RETURN_IF_ERROR(sparcl::api::heartbeat_of(config).status());
  return sparcl::api::choose_transport(sparcl::api::StartedBy::kUniqueId, config, nranks).status();
}

Result<std::unique_ptr<sparclComm>> init_rank(int nranks, const sparclUniqueId& bytes, int rank,
                                              const sparclConfig_t* config) {
  std::array<std::byte, sparcl::net::kUniqueIdBytes> copy;
  std::memcpy(copy.data(), bytes.internal, copy.size());
  SPARCL_ASSIGN_OR_RETURN(const sparcl::net::UniqueId id, sparcl::net::decode_unique_id(copy));
  if (Status bad = check_arguments(nranks, rank, config); !bad.ok()) {
    sparcl::net::decline(id, rank, bad, kDeclineSeconds);
    return bad;
  }
  SPARCL_ASSIGN_OR_RETURN(const double timeout, sparcl::api::timeout_of(config));
  CommTrail trail = CommTrail::meeting(
      {0, rank, nranks, "ucx"}, fmt::format("ranks meet at {}", to_text(id.addresses.front())));
  const sparcl::transport::OutOfBandGather gather = [&](std::span<const std::byte> own) {
    SPARCL_FAILPOINT("init.before_meeting");
    sparcl::net::GatherOptions options;
    sparcl::WaitWarning warning;
    const double begin = sparcl::net::monotonic_seconds();
    options.on_note = [&](const sparcl::net::Note& note) {
      trail.meets(note.text());
      if (const double lasted = sparcl::net::monotonic_seconds() - begin; warning.is_due(lasted)) {
        sparcl::log_warn(
            "rank {} has waited {:.3g} s in sparclCommInitRank: {}; the wait ends after {:g} s "
            "(SPARCL_TIMEOUT_S)",
            rank, lasted, note.text(), timeout);
      }
    };
    return sparcl::net::all_gather(id, nranks, rank, own, timeout, options);
  };
  Result<std::unique_ptr<sparcl::transport::Transport>> transport =
      sparcl::api::make_ucx_transport(rank, nranks, gather, config);
  if (!transport.ok()) {
    trail.not_met(transport.status().code());
    return transport.status();
  }
  SPARCL_FAILPOINT("init.met");
  Result<std::unique_ptr<sparclComm>> comm =
      sparcl::api::make_comm(std::move(*transport), config, std::move(trail));
  if (comm.ok()) SPARCL_RETURN_IF_ERROR(sparcl::api::start_comm(**comm));
  return comm;
}

}  // namespace

extern "C" {

sparclResult_t sparclGetUniqueId(sparclUniqueId* id) {
  return guarded([&]() -> Status {
    if (id == nullptr) return Status(Code::kInvalidArgument, "sparclGetUniqueId: id is NULL");
    const auto made = sparcl::net::make_unique_id();
    if (!made.ok()) return made.status().with_prefix("sparclGetUniqueId: ");
    std::memcpy(id->internal, made->data(), made->size());
    return Status();
  });
}

sparclResult_t sparclCommInitRank(sparclComm_t* comm, int nranks, sparclUniqueId id, int rank,
                                  const sparclConfig_t* config) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return Status(Code::kInvalidArgument, "sparclCommInitRank: comm is NULL");
    Result<std::unique_ptr<sparclComm>> made = init_rank(nranks, id, rank, config);
    if (!made.ok()) return made.status().with_prefix("sparclCommInitRank: ");
    *comm = made->release()->handle.get();
    return Status();
  });
}

}  // extern "C"
