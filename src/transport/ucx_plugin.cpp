#include "src/transport/ucx_plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "src/base/build_id.hpp"
#include "src/base/log.hpp"
#include "src/transport/environment_overlay.hpp"
#include "src/transport/signal_dispositions.hpp"

namespace sparcl::transport {
namespace {

constexpr const char* kPluginName = "libsparcl_ucx.so";
constexpr const char* kPluginCure =
    "install sparcl's UCX transport (libsparcl_ucx.so) beside libsparcl.so, and UCX (Debian: "
    "libucx0)";

// UCX reads these when its library is loaded. UCX_VFS_ENABLE=n keeps UCX from starting a thread.
constexpr std::array kQuietUcx{"UCX_HANDLE_ERRORS=none", "UCX_DEBUG_SIGNO=0", "UCX_LOG_FILE=stderr",
                               "UCX_VFS_ENABLE=n"};

bool wants_handlers_of_ucx() {
  return std::getenv("UCX_HANDLE_ERRORS") != nullptr || std::getenv("UCX_DEBUG_SIGNO") != nullptr;
}

std::atomic<const UcxPlugin*> loaded{nullptr};

// The path of the library or program that has the function.
std::string path_of(const void* function) {
  Dl_info found{};
  return ::dladdr(function, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "?";
}

// "/usr/lib/libsparcl_ucx.so"; empty if it is not there.
std::string plugin_beside_us() {
  const std::string own = path_of(reinterpret_cast<const void*>(&plugin_beside_us));
  const std::size_t slash = own.rfind('/');
  if (slash == std::string::npos) return {};
  std::string path = own.substr(0, slash + 1) + kPluginName;
  return ::access(path.c_str(), F_OK) == 0 ? path : std::string();
}

// Open MPI may have loaded it.
bool is_ucx_loaded() {
  void* const library = ::dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

// Never unloaded: UCX patches the C library's functions for memory.
void* open_quietly(const std::string& path) {
  const EnvironmentOverlay overlay(kQuietUcx);
  const SignalDispositions before;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!wants_handlers_of_ucx()) before.give_back();
  return library;
}

Status not_loaded(const std::string& reason) {
  return Status(Code::kUnsupported,
                fmt::format("transport ucx cannot be loaded: {}: {}", reason, kPluginCure));
}

}  // namespace

Result<const UcxPlugin*> load_ucx_plugin_from(const std::string& path) {
  const bool was_loaded = is_ucx_loaded();
  void* const library = open_quietly(path);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return not_loaded(why != nullptr ? why : path + ": no reason given");
  }
  const auto build_of = reinterpret_cast<const char* (*)()>(::dlsym(library, kUcxBuildSymbol));
  const auto table_of = reinterpret_cast<const UcxPlugin* (*)()>(::dlsym(library, kUcxTableSymbol));
  if (build_of == nullptr || table_of == nullptr)
    return not_loaded(fmt::format("{} is no plug-in of sparcl", path));
  const std::string place = path_of(reinterpret_cast<const void*>(build_of));
  if (const std::string_view build = build_of(); build != build_id()) {
    return Status(
        Code::kUnsupported,
        fmt::format("transport ucx cannot be loaded: {} is of build {}, but {} is of build {}: "
                    "install both from the same build",
                    place, build, path_of(reinterpret_cast<const void*>(&path_of)), build_id()));
  }
  const UcxPlugin* const table = table_of();
  if (was_loaded && std::getenv("UCX_LOG_FILE") == nullptr) table->log_to_stderr();
  log_info("UCX {} through {}", table->version(), place);
  return table;
}

const UcxPlugin* loaded_ucx_plugin() { return loaded.load(std::memory_order_acquire); }

Result<const UcxPlugin*> load_ucx_plugin() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded.load();
  const std::string beside = plugin_beside_us();
  Result<const UcxPlugin*> found = load_ucx_plugin_from(beside.empty() ? kPluginName : beside);
  if (found.ok()) loaded = *found;
  return found;
}

}  // namespace sparcl::transport
