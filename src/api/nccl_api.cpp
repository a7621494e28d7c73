// Communicators whose ranks' GPUs talk over NCCL. The data that NCCL needs for its set-up goes over
// the communicator's own messenger.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/api/comm.hpp"
#include "src/api/device_kernel_choice.hpp"
#include "src/api/error.hpp"
#include "src/comm/start/small_gather.hpp"
#include "src/transport/nccl/nccl_engine.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::guarded_in;
using sparcl::transport::NcclEngine;
using sparcl::transport::NcclId;
using sparcl::transport::NcclLibrary;

namespace {

enum class Way : std::int32_t { kNewId, kGivenId, kGivenComm };
constexpr std::array kWayNames{"no options", "a unique id", "an NCCL communicator"};

// The message of each rank before any call of NCCL. It is sent as it is: no padding.
struct Offer {
  std::int32_t code = 0;  // a Code: why this rank cannot
  std::int32_t version = 0;
  Way way = Way::kNewId;
  std::int32_t gpu = -1;
  sparcl::gpu::DeviceUuid gpu_uuid{};
  NcclId id{};
  char text[224] = {};
};
static_assert(sizeof(Offer) == 384);

struct Own {
  const NcclLibrary* nccl = nullptr;
  const sparcl::kernels::DeviceKernelSet* kernels = nullptr;
  void* context = nullptr;
  int gpu = -1;
  sparclNcclOptions_t options = SPARCL_NCCL_OPTIONS_INITIALIZER;
};

Status look_around(const sparclComm& comm, const sparclNcclOptions_t* given, Own& own,
                   Offer& offer) {
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", own.options));
  if (own.options.unique_id != nullptr && own.options.comm != nullptr)
    return Status(Code::kInvalidArgument, "options has both unique_id and comm: give one of them");
  if (comm.device != nullptr)
    return Status(Code::kInvalidUsage, "this communicator uses NCCL already");
  if (!comm.pending.empty())
    return Status(Code::kInvalidUsage, "a request is in flight: wait for it first");
  offer.way = own.options.comm != nullptr        ? Way::kGivenComm
              : own.options.unique_id != nullptr ? Way::kGivenId
                                                 : Way::kNewId;
  SPARCL_ASSIGN_OR_RETURN(const auto kernels, sparcl::api::device_kernels());
  own.kernels = kernels;
  SPARCL_ASSIGN_OR_RETURN(const NcclLibrary* const nccl, sparcl::transport::load_nccl());
  own.nccl = nccl;
  offer.version = own.nccl->version;
  SPARCL_ASSIGN_OR_RETURN(void* const context, sparcl::gpu::current_context());
  own.context = context;
  SPARCL_RETURN_IF_ERROR(own.kernels->check_device());
  SPARCL_ASSIGN_OR_RETURN(const int gpu, sparcl::gpu::current_device());
  own.gpu = offer.gpu = gpu;
  offer.gpu_uuid = sparcl::gpu::current_device_uuid();
  if (offer.way == Way::kGivenId) std::memcpy(&offer.id, own.options.unique_id, sizeof offer.id);
  if (offer.way == Way::kNewId && comm.transport->rank() == 0)
    return own.nccl->status_of(own.nccl->get_unique_id(&offer.id), "ncclGetUniqueId", nullptr);
  if (offer.way == Way::kGivenComm) {
    // Also finds out that it is of these ranks.
    return NcclEngine::wrap(*own.nccl, static_cast<NcclLibrary::Comm>(own.options.comm),
                            comm.transport->rank(), comm.transport->size(), own.gpu,
                            comm.engine.timeout_s())
        .status();
  }
  return Status();
}

// NCCL refuses two ranks on one GPU, but only during its own start.
Status shared_gpu(const sparcl::transport::Transport& transport, std::span<const Offer> offers) {
  std::map<sparcl::gpu::DeviceUuid, std::size_t> ranks;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& offer = offers[rank];
    if (offer.way == Way::kGivenComm || offer.gpu_uuid == sparcl::gpu::DeviceUuid{}) continue;
    const auto [other, is_first] = ranks.try_emplace(offer.gpu_uuid, rank);
    if (is_first) continue;
    const auto name = [&](std::size_t each) {
      return fmt::format("rank {} ({}, its GPU {})", each,
                         transport.describe_peer(static_cast<int>(each)), offers[each].gpu);
    };
    return Status(Code::kInvalidUsage, fmt::format("{} and {} have the same GPU: let each choose "
                                                   "its own by cudaSetDevice before this call",
                                                   name(other->second), name(rank)));
  }
  return Status();
}

Status difference(const sparcl::transport::Transport& transport, std::span<const Offer> offers) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const auto code = static_cast<Code>(offers[rank].code);
    if (code == Code::kSuccess) continue;
    const std::string_view text(offers[rank].text,
                                ::strnlen(offers[rank].text, sizeof offers[rank].text));
    return Status(sparcl::is_code(offers[rank].code) ? code : Code::kInternalError,
                  fmt::format("rank {} ({}): {}", rank,
                              transport.describe_peer(static_cast<int>(rank)), text));
  }
  const Offer& first = offers[0];
  for (std::size_t rank = 1; rank < offers.size(); ++rank) {
    const Offer& other = offers[rank];
    if (other.way != first.way) {
      const auto name = [](Way way) {
        return kWayNames[std::min(static_cast<std::size_t>(way), kWayNames.size() - 1)];
      };
      return Status(Code::kMismatch, fmt::format("rank 0 gave {}, rank {} {}", name(first.way),
                                                 rank, name(other.way)));
    }
    if (other.version != first.version) {
      return Status(
          Code::kMismatch,
          fmt::format(
              "rank 0 has NCCL {}, rank {} {}: give all ranks the same (SPARCL_NCCL_LIBRARY)",
              sparcl::transport::nccl_version_text(first.version), rank,
              sparcl::transport::nccl_version_text(other.version)));
    }
    if (first.way == Way::kGivenId && std::memcmp(&other.id, &first.id, sizeof first.id) != 0)
      return Status(Code::kMismatch,
                    fmt::format("rank 0 and rank {} gave different unique ids", rank));
  }
  return shared_gpu(transport, offers);
}

Status use_nccl(sparclComm& comm, const sparclNcclOptions_t* options) {
  if (!comm.engine.health().ok()) return comm.engine.health();
  Own own;
  Offer offer;
  const Status mine = look_around(comm, options, own, offer);
  offer.code = static_cast<std::int32_t>(mine.code());
  (void)mine.message().copy(offer.text, sizeof offer.text - 1);
  const sparcl::transport::Channel channel{comm.next_call, 0};
  comm.next_call = sparcl::api::next_call_number(comm.next_call);
  std::vector<std::byte> gathered;
  sparcl::comm::Task meeting = sparcl::comm::small_gather(
      comm.engine, channel, std::as_bytes(std::span(&offer, 1)), gathered);
  comm.engine.run(meeting);
  SPARCL_RETURN_IF_ERROR(meeting.result());
  comm.transport->close(channel);
  std::vector<Offer> offers(gathered.size() / sizeof(Offer));
  std::memcpy(static_cast<void*>(offers.data()), gathered.data(), offers.size() * sizeof(Offer));
  SPARCL_RETURN_IF_ERROR(difference(*comm.transport, offers));

  const int rank = comm.transport->rank(), size = comm.transport->size();
  const double timeout_s = comm.engine.timeout_s();
  Result<std::unique_ptr<NcclEngine>> made =
      offer.way == Way::kGivenComm
          ? NcclEngine::wrap(*own.nccl, static_cast<NcclLibrary::Comm>(own.options.comm), rank,
                             size, own.gpu, timeout_s)
          : NcclEngine::create(*own.nccl, offers[0].id, rank, size, timeout_s, [&] {
              comm.engine.step();
              return comm.engine.health();
            });
  if (!made.ok()) {  // the others wait inside NCCL
    comm.engine.fail(made.status(), rank);
    return comm.engine.health();
  }
  comm.device = std::make_unique<sparcl::comm::DeviceCalls>(std::move(*made), *own.kernels,
                                                            own.context, own.gpu);
  comm.context.device = comm.device.get();
  // NCCL connects GPUs at the first call of a kind, on the host, and waits there for ranks that
  // come later.
  comm.device->engine().set_watch([&engine = comm.engine] {
    return engine.is_asked_to_end() ? Status(Code::kRemoteError, "sparclCommAbort was called")
                                    : Status();
  });
  return Status();
}

}  // namespace

extern "C" {

sparclResult_t sparclCommUseNccl(sparclComm_t comm, const sparclNcclOptions_t* options) {
  return guarded_in(__func__, comm,
                    [&](sparclComm& own) -> Status { return use_nccl(own, options); });
}

sparclResult_t sparclCommStreamSynchronize(sparclComm_t comm, sparclStream_t stream) {
  return guarded_in(__func__, comm, [&](sparclComm& own) -> Status {
    if (!own.engine.health().ok()) return own.engine.health();
    if (own.device == nullptr)
      return Status(
          Code::kInvalidUsage,
          "this communicator does not use NCCL: call sparclCommUseNccl first, on all ranks");
    return own.device->synchronize(own.engine, stream);
  });
}

}  // extern "C"
