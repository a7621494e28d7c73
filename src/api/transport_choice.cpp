// Which transport carries a communicator, and why.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "src/api/call.hpp"
#include "src/api/call_options.hpp"
#include "src/api/comm.hpp"
#include "src/api/error.hpp"
#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/transport/ucx_needs.hpp"
#include "src/transport/ucx_plugin.hpp"

namespace sparcl::api {
namespace {

constexpr bool kHasUcx = SPARCL_WITH_UCX != 0;

Result<std::string> wanted(const sparclConfig_t* given) {
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "config", config));
  if (config.transport == nullptr) return setting_choice("TRANSPORT");
  const std::string_view name = config.transport;
  for (const std::string_view known : {"auto", "mpi", "ucx", "loopback"}) {
    if (name == known) return std::string(name);
  }
  return Status(
      Code::kInvalidArgument,
      fmt::format("config.transport = \"{}\": expected auto, mpi, ucx or loopback", name));
}

Status refuse(const std::string& name, const char* started, const char* instead) {
  return Status(
      Code::kInvalidUsage,
      fmt::format(
          "transport {} cannot carry ranks that {}: use {} (SPARCL_TRANSPORT, config.transport)",
          name, started, instead));
}

// It is checked and loaded here, before the ranks meet: a rank that lacks something can still
// refuse.
Result<TransportChoice> ucx(const char* why, int ranks) {
  if constexpr (!kHasUcx) {
    return Status(Code::kUnsupported,
                  "transport ucx is not in this build: SPARCL_UCX=OFF, or no UCX was found "
                  "(Debian: apt-get install libucx-dev)");
  }
  const transport::UcxPlugin* const loaded = transport::loaded_ucx_plugin();
  if (loaded == nullptr || !loaded->is_open()) {
    SPARCL_RETURN_IF_ERROR(
        status_of(transport::check_ucx_needs(ranks)).with_prefix("transport ucx cannot start: "));
  }
  SPARCL_RETURN_IF_ERROR(transport::load_ucx_plugin().status());
  return TransportChoice{TransportKind::kUcx, why};
}

Result<TransportChoice> choose(StartedBy by, const std::string& name, int ranks) {
  const bool is_auto = name == "auto";
  switch (by) {
    case StartedBy::kThreads:
      if (is_auto || name == "loopback")
        return TransportChoice{TransportKind::kLoopback, "the ranks are threads of one process"};
      return refuse(name, "are threads of one process", "loopback");
    case StartedBy::kUniqueId:
      if (is_auto) return ucx("the ranks met by a unique id", ranks);
      if (name == "ucx") return ucx("it is asked for", ranks);
      return refuse(name, "met by a unique id", "ucx");
    case StartedBy::kMpi:
      if (is_auto) return TransportChoice{TransportKind::kMpi, "MPI started the ranks"};
      if (name == "mpi") return TransportChoice{TransportKind::kMpi, "it is asked for"};
      if (name == "ucx") return ucx("it is asked for", ranks);
      return refuse(name, "MPI started", "mpi or ucx");
  }
  return Status(Code::kInternalError, "ranks were started in an unknown way");
}

const char* name_of(TransportKind kind) {
  return kind == TransportKind::kMpi ? "mpi" : kind == TransportKind::kUcx ? "ucx" : "loopback";
}

}  // namespace

Result<TransportChoice> choose_transport(StartedBy by, const sparclConfig_t* config, int ranks) {
  SPARCL_ASSIGN_OR_RETURN(const std::string name, wanted(config));
  Result<TransportChoice> choice = choose(by, name, ranks);
  if (choice.ok())
    log_info("SPARCL_TRANSPORT={}: {}, as {}", name, name_of(choice->kind), choice->why);
  return choice;
}

Result<std::optional<net::HeartbeatOptions>> heartbeat_of(const sparclConfig_t* given) {
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "config", config));
  SPARCL_RETURN_IF_ERROR(check_toggle("config.heartbeat", config.heartbeat));
  if (config.liveness_s != 0 && !(config.liveness_s > 0 && config.liveness_s <= kMaxSeconds)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("config.liveness_s = {:g}: expected seconds, at most {:g} (three "
                              "years), or 0 for SPARCL_LIVENESS_S",
                              config.liveness_s, kMaxSeconds));
  }
  Result<std::optional<net::HeartbeatOptions>> options = net::heartbeat_options(
      config.heartbeat == sparclDefault ? std::nullopt
                                        : std::optional(config.heartbeat == sparclOn));
  if (!options.ok()) return options.status();
  if (*options && config.liveness_s > 0) {
    SPARCL_RETURN_IF_ERROR((*options)->check_silence(config.liveness_s, "config.liveness_s"));
    (*options)->set_silence(config.liveness_s);
  }
  return options;
}

Result<std::unique_ptr<transport::Transport>> make_ucx_transport(
    int rank, int ranks, const transport::OutOfBandGather& gather, const sparclConfig_t* config) {
  transport::UcxOptions options;
  SPARCL_ASSIGN_OR_RETURN(const std::optional<net::HeartbeatOptions> heartbeat,
                          heartbeat_of(config));
  options.heartbeat = heartbeat;
  SPARCL_ASSIGN_OR_RETURN(const double timeout, timeout_of(config));
  SPARCL_ASSIGN_OR_RETURN(const transport::UcxPlugin* const plugin, transport::load_ucx_plugin());
  return (plugin)->make(rank, ranks, gather, options, timeout);
}

}  // namespace sparcl::api

extern "C" {

sparclResult_t sparclInternalChooseForMpi(const sparclConfig_t* config, int* uses_ucx) {
  return sparcl::api::guarded([&]() -> sparcl::Status {
    SPARCL_ASSIGN_OR_RETURN(const auto choice,
                            sparcl::api::choose_transport(sparcl::api::StartedBy::kMpi, config));
    *uses_ucx = choice.kind == sparcl::api::TransportKind::kUcx ? 1 : 0;
    return {};
  });
}

sparclResult_t sparclInternalMakeUcx(void** transport, int rank, int ranks, const void* gather,
                                     const sparclConfig_t* config) {
  return sparcl::api::guarded([&]() -> sparcl::Status {
    SPARCL_ASSIGN_OR_RETURN(
        auto made,
        sparcl::api::make_ucx_transport(
            rank, ranks, *static_cast<const sparcl::transport::OutOfBandGather*>(gather), config));
    *transport = made.release();
    return {};
  });
}

sparclResult_t sparclInternalHeartbeat(const sparclConfig_t* config, void* options) {
  return sparcl::api::guarded([&]() -> sparcl::Status {
    const auto chosen = sparcl::api::heartbeat_of(config);
    if (chosen.ok()) *static_cast<std::optional<sparcl::net::HeartbeatOptions>*>(options) = *chosen;
    return chosen.status();
  });
}

}  // extern "C"
