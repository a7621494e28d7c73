#include "src/transport/ucx/ucx_worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx/ucx_settings.hpp"
#include "src/transport/ucx_needs.hpp"

namespace sparcl {
namespace {

// Several ranks start at once, and each sees the same free memory. Where that is scarce they open their workers one after another:
// each holds a lock of the folder from its look at the free memory until UCX has taken its part. Nobody waits for a process that
// stands still.
class ScarceMemoryTurn {
 public:
  ScarceMemoryTurn() {
    constexpr int kTries = 400;  // 2 s in all; a worker takes 10 ms
    folder_ = ::open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < kTries && folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) != 0; ++i) ::usleep(5000);
  }
  ~ScarceMemoryTurn() {
    if (folder_ >= 0) ::close(folder_);
  }
  ScarceMemoryTurn(const ScarceMemoryTurn&) = delete;
  ScarceMemoryTurn& operator=(const ScarceMemoryTurn&) = delete;

 private:
  int folder_ = -1;
};

bool is_shared_memory_scarce() {
  constexpr std::uint64_t kManyWorkers = 256;  // heuristic: ranks of one machine
  struct statvfs found {};
  return ::statvfs("/dev/shm", &found) == 0 && std::uint64_t{found.f_bavail} * found.f_frsize < kManyWorkers * kUcxSharedBytes;
}

// UCX names neither the limit nor its value.
Status explain(const Status& failed) {
  if (failed.ok()) return failed;
  const Status needs = status_of(check_ucx_needs(1));
  return needs.ok() ? failed : Status(failed.code(), fmt::format("{} ({})", needs.message(), failed.message()));
}

}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::open() {
  std::optional<ScarceMemoryTurn> turn;
  if (is_shared_memory_scarce()) turn.emplace();
  SPARCL_RETURN_IF_ERROR(status_of(check_ucx_needs(1)));
  std::unique_ptr<UcxWorker> made(new UcxWorker);
  SPARCL_RETURN_IF_ERROR(explain(made->init()));
  return made;
}

Status UcxWorker::init() {
  ucp_config_t* config = nullptr;
  SPARCL_RETURN_IF_ERROR(ucx_status(ucp_config_read(nullptr, nullptr, &config), "reading UCX's settings (UCX_...)"));
  if (Status bad = adapt_ucx_settings(config); !bad.ok()) {
    ucp_config_release(config);
    return bad;
  }
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "sparcl";
  const ucs_status_t initialised = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  const char* const lanes = std::getenv("UCX_TLS");
  SPARCL_RETURN_IF_ERROR(ucx_status(
      initialised, fmt::format("ucp_init ({}; UCX_TLS and UCX_NET_DEVICES say what it may use; `ucx_info -d` what there is)",
                               lanes != nullptr ? fmt::format("UCX_TLS={}", lanes) : "UCX_TLS is not set")));

  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  SPARCL_RETURN_IF_ERROR(ucx_status(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create"));
  SPARCL_RETURN_IF_ERROR(ucx_status(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd"));

  ucp_context_attr_t attributes = {};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  if (ucp_context_query(context_, &attributes) == UCS_OK) {
    moves_device_memory_ = (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  }
  return {};
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

Result<std::vector<std::byte>> UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  SPARCL_RETURN_IF_ERROR(ucx_status(ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address"));
  const auto* first = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(first, first + bytes);
  ucp_worker_release_address(worker_, address);
  return copy;
}

void UcxWorker::sleep(double seconds, int extra_fd) {
  if (!(seconds > 0) || ucp_worker_arm(worker_) != UCS_OK) return;  // busy: something came meanwhile
  pollfd fds[2] = {{event_fd_, POLLIN, 0}, {extra_fd, POLLIN, 0}};
  const int milliseconds = static_cast<int>(std::ceil(std::min(seconds, 3600.0) * 1e3));
  ::poll(fds, extra_fd >= 0 ? 2 : 1, milliseconds);
}

}  // namespace sparcl
