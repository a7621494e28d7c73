#pragma once
// The UCX transport as a plug-in: libsparcl_ucx.so. It is loaded only when this transport is
// chosen, because it loads UCX.

#include <memory>
#include <optional>
#include <string>

#include "src/base/status.hpp"
#include "src/net/heartbeat/heartbeat.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

struct UcxOptions {
  std::optional<net::HeartbeatOptions> heartbeat =
      {};                  // without it a death on shared memory is not detected
  double departure_s = 1;  // at the end: for bytes that peers may still be about to read
};

// The functions of the plug-in.
struct UcxPlugin {
  // Collective: all `ranks` ranks meet in `gather`, each with its PeerCard. Each rank then connects
  // to its peers, for at most timeout_s.
  Result<std::unique_ptr<Transport>> (*make)(int rank, int ranks, const OutOfBandGather& gather,
                                             const UcxOptions& options, double timeout_s);
  // Whether `make` reuses UCX's objects of an earlier communicator of this process.
  bool (*is_open)();
  // Opens UCX like `make`, and closes it.
  Status (*try_out)();
  std::string (*version)();  // of UCX: "1.13.1"
  void (*log_to_stderr)();   // for a UCX that another library has loaded, and that may log to
                             // standard output
};

// Loads the plug-in once; thread-safe. It lies beside the library or program that this code is in,
// or where the dynamic linker finds it. UCX's signal handlers stay off and its messages go to
// standard error, unless UCX_HANDLE_ERRORS, UCX_DEBUG_SIGNO or UCX_LOG_FILE is set. Unsupported,
// with the reason and what to do, if it is missing, lacks a library, or comes from another build.
Result<const UcxPlugin*> load_ucx_plugin();
const UcxPlugin* loaded_ucx_plugin();                                    // nullptr: not yet
Result<const UcxPlugin*> load_ucx_plugin_from(const std::string& path);  // never cached

// The symbols of the plug-in. The first is plain C, so that a plug-in of any build can be asked.
inline constexpr const char* kUcxBuildSymbol = "sparclUcxPluginBuild";
inline constexpr const char* kUcxTableSymbol = "sparclUcxPluginTable";

}  // namespace sparcl::transport
