#include "src/transport/nccl/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>

#include "src/base/log.hpp"
#include "src/base/settings.hpp"

namespace sparcl::transport {
namespace {

constexpr const char* kWhatToDo =
    "install it (Debian: libnccl2), or name the file by SPARCL_NCCL_LIBRARY; without it leave "
    "sparclCommUseNccl out";

// Finds functions, and names the missing one.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}
  template <class Function>
  void find(const char* name, Function*& into) {
    into = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (into == nullptr && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

// Versions below 2.9 count minors by 100.
int ordered_version(int version) {
  return version < 10000 ? version / 1000 * 10000 + version % 1000 : version;
}

Result<NcclLibrary> open(const std::string& path) {
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return Status(Code::kUnsupported,
                  fmt::format("NCCL: {} cannot be loaded ({}): {}", path,
                              why != nullptr ? why : "no reason given", kWhatToDo));
  }
  Finder finder(handle);
  NcclLibrary made;
  made.path = path;
  NcclLibrary::Result_t (*get_version)(int* version) = nullptr;
  finder.find("ncclGetVersion", get_version);
  if (get_version == nullptr || get_version(&made.version) != NcclLibrary::kSuccess) {
    ::dlclose(handle);
    return Status(
        Code::kUnsupported,
        fmt::format("NCCL: {} does not tell its version: is it NCCL? {}", path, kWhatToDo));
  }
  made.version = ordered_version(made.version);
  if (made.version < kOldestNccl) {
    ::dlclose(handle);
    return Status(
        Code::kUnsupported,
        fmt::format("NCCL: {} has version {}: {} or later is needed; install a newer one, or name "
                    "its file by SPARCL_NCCL_LIBRARY",
                    path, nccl_version_text(made.version), nccl_version_text(kOldestNccl)));
  }
  finder.find("ncclGetUniqueId", made.get_unique_id);
  finder.find("ncclCommInitRankConfig", made.init_rank);
  finder.find("ncclCommCount", made.count);
  finder.find("ncclCommUserRank", made.user_rank);
  finder.find("ncclCommCuDevice", made.device);
  finder.find("ncclCommGetAsyncError", made.async_error);
  finder.find("ncclCommFinalize", made.finalize);
  finder.find("ncclCommDestroy", made.destroy);
  finder.find("ncclCommAbort", made.abort);
  finder.find("ncclAllReduce", made.all_reduce);
  finder.find("ncclBroadcast", made.broadcast);
  finder.find("ncclAllGather", made.all_gather);
  finder.find("ncclSend", made.send);
  finder.find("ncclRecv", made.receive);
  finder.find("ncclGroupStart", made.group_start);
  finder.find("ncclGroupEnd", made.group_end);
  finder.find("ncclGetErrorString", made.error_string);
  finder.find("ncclGetLastError", made.last_error);
  if (finder.missing() == nullptr) return made;
  ::dlclose(handle);
  return Status(Code::kUnsupported,
                fmt::format("NCCL: {} (version {}) has no {}: {}", path,
                            nccl_version_text(made.version), finder.missing(), kWhatToDo));
}

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Status NcclLibrary::status_of(Result_t result, const char* what, Comm comm) const {
  if (result == kSuccess) return Status();
  const char* const text = error_string(result);
  const char* const more = last_error(comm);
  const bool is_known = result > 0 && result < kInProgress;
  return Status(
      is_known ? static_cast<Code>(result) : Code::kInternalError,
      fmt::format("NCCL {}: {}: {}{}{} (NCCL_DEBUG=WARN has it tell more)",
                  nccl_version_text(version), what, text != nullptr ? text : "unknown error",
                  more != nullptr && *more != '\0' ? ": " : "", more != nullptr ? more : ""));
}

Result<const NcclLibrary*> load_nccl() {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const NcclLibrary>> loaded;
  const std::string path = setting("NCCL_LIBRARY").text;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const NcclLibrary>& known = loaded[path];
  if (known == nullptr) {
    SPARCL_ASSIGN_OR_RETURN(NcclLibrary opened, open(path));
    known = std::make_unique<const NcclLibrary>(std::move(opened));
    log_info("NCCL {} from {}", nccl_version_text(known->version), path);
  }
  return known.get();
}

}  // namespace sparcl::transport
