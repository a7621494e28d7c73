#include "src/transport/ucx/ucx_worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/process_own.hpp"
#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx/ucx_settings.hpp"
#include "src/transport/ucx_needs.hpp"

namespace sparcl::transport {
namespace {

// Several ranks start at once, and each sees the same free memory. If memory is scarce, they open
// their workers one after another. Each holds a lock of the folder from its look at the free memory
// until UCX has taken its part. The wait for the lock is limited, because its holder may be
// stopped.
class ScarceMemoryTurn {
 public:
  ScarceMemoryTurn() {
    constexpr int kTries = 400;  // 2 s in all; a worker takes 10 ms
    folder_ = ::open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < kTries && folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) != 0; ++i)
      ::usleep(5000);
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
  return ::statvfs("/dev/shm", &found) == 0 &&
         std::uint64_t{found.f_bavail} * found.f_frsize < kManyWorkers * kUcxSharedBytes;
}

// Settings that a worker depends on: UCX reads its own when a context is made.
std::string own_settings() {
  std::string all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view variable(*each);
    if (variable.starts_with("UCX_") || variable.starts_with("SPARCL_INTERFACE="))
      all.append(variable).push_back('\n');
  }
  return all;
}

// UCX names neither the limit nor its value.
Status explain(const Status& failed) {
  if (failed.ok()) return failed;
  const Status needs = status_of(check_ucx_needs(1));
  return needs.ok()
             ? failed
             : Status(failed.code(), fmt::format("{} ({})", needs.message(), failed.message()));
}

}  // namespace

void UcxLock::wait() {
  constexpr int kYields = 1000;  // then its holder takes long
  waiting_.fetch_add(1, std::memory_order_relaxed);
  for (int turns = 0; is_held_.load(std::memory_order_relaxed) ||
                      is_held_.exchange(true, std::memory_order_acquire);
       ++turns) {
    if (turns < kYields) {
      sched_yield();
    } else {
      ::usleep(50);
    }
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

Result<std::shared_ptr<UcxWorker>> UcxWorker::open() {
  std::optional<ScarceMemoryTurn> turn;
  if (is_shared_memory_scarce()) turn.emplace();
  SPARCL_RETURN_IF_ERROR(status_of(check_ucx_needs(1)));
  std::shared_ptr<UcxWorker> made(new UcxWorker, end);
  SPARCL_RETURN_IF_ERROR(explain(made->init()));
  return made;
}

Result<std::shared_ptr<UcxWorker>> UcxWorker::of_process() {
  if (const std::shared_ptr<UcxWorker> found = now_shared_by_process<UcxWorker>();
      found != nullptr && !found->takes_more()) {
    unshare_by_process(found);
  }
  return shared_by_process<UcxWorker>(open);
}

bool UcxWorker::is_open_in_process() {
  const std::shared_ptr<UcxWorker> found = now_shared_by_process<UcxWorker>();
  return found != nullptr && found->takes_more();
}

bool UcxWorker::takes_more() const { return !is_retired_ && settings_ == own_settings(); }

Status UcxWorker::init() {
  settings_ = own_settings();
  ucp_config_t* config = nullptr;
  SPARCL_RETURN_IF_ERROR(
      ucx_status(ucp_config_read(nullptr, nullptr, &config), "reading UCX's settings (UCX_...)"));
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
      initialised,
      fmt::format("ucp_init ({}; UCX_TLS and UCX_NET_DEVICES say what it may use; `ucx_info -d` "
                  "what there is)",
                  lanes != nullptr ? fmt::format("UCX_TLS={}", lanes) : "UCX_TLS is not set")));

  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  SPARCL_RETURN_IF_ERROR(
      ucx_status(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create"));
  SPARCL_RETURN_IF_ERROR(ucx_status(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd"));

  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kUcxWordId;
  handler.cb = on_word;
  handler.arg = this;
  SPARCL_RETURN_IF_ERROR(ucx_status(ucp_worker_set_am_recv_handler(worker_, &handler),
                                    "ucp_worker_set_am_recv_handler"));

  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  SPARCL_RETURN_IF_ERROR(
      ucx_status(ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address"));
  const auto* first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + bytes);
  ucp_worker_release_address(worker_, address);

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

// With the last communicator. The worker stays for good if UCX may still write to the library's
// memory, or did not end.
void UcxWorker::end(UcxWorker* worker) noexcept {
  static std::atomic<UcxWorker*> kept{nullptr};  // reachable, also while the process ends
  bool is_closed = worker->worker_ == nullptr;
  try {
    is_closed = is_closed || worker->close_all();
    if (!is_closed)
      log_debug("{} operations are left with UCX; their memory stays allocated",
                worker->open_.size());
  } catch (const std::exception&) {  // no memory
  }
  if (is_closed) {
    delete worker;
  } else {
    worker->kept_before_ = kept.exchange(worker);
  }
}

// This thread advances the worker itself when something has come: with many waiters for the lock, a
// thread that only looks never gets it.
void UcxWorker::sleep(Lock& held, UcxMailbox& mailbox, double seconds, net::Heartbeat* heartbeat,
                      std::uint32_t deaths_seen) {
  if (!(seconds > 0)) return;
  if (ucp_worker_arm(worker_) !=
      UCS_OK) {  // busy: something came meanwhile, and no event is armed for the sleepers
    progress();
    for (const UcxMailbox* each : sleeping_) each->sleeper->wake();
    return;
  }
  net::WakeEvent event;  // without a descriptor if none is left: then the time must run out
  if (!events_.empty()) {
    event = std::move(events_.back());
    events_.pop_back();
  } else if (Result<net::WakeEvent> made = net::WakeEvent::create(); made.ok()) {
    event = std::move(*made);
  }
  events_.reserve(events_.size() + sleeping_.size() + 1);  // all of them come back
  sleeping_.push_back(&mailbox);
  mailbox.sleeper = &event;
  if (heartbeat != nullptr) heartbeat->set_event(&event);
  if (heartbeat == nullptr || heartbeat->deaths() == deaths_seen) {
    held.unlock();
    pollfd fds[2] = {{event_fd_, POLLIN, 0}, {event.fd(), POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(std::ceil(std::min(seconds, 3600.0) * 1e3)));
    held.lock();
    if (fds[0].revents != 0) progress();
  }
  if (heartbeat != nullptr) heartbeat->set_event(nullptr);
  mailbox.sleeper = nullptr;
  std::erase(sleeping_, &mailbox);
  if (event.fd() < 0) return;
  event.drain();
  events_.push_back(std::move(event));
}

}  // namespace sparcl::transport
