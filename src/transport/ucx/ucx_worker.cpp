#include "src/transport/ucx/ucx_worker.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/transport/ucx/ucx_error.hpp"

namespace sparcl {
namespace {

// The most that a process may ask of the kernel for what a TCP socket has received; 0 if that is not known, or where a buffer that
// Linux lets grow may become far larger: asking stops its growth.
std::size_t largest_receive_buffer() {
  constexpr std::size_t kFarLarger = 8;  // heuristic
  std::size_t asked = 0, least = 0, first = 0, grown = 0;
  std::ifstream("/proc/sys/net/core/rmem_max") >> asked;
  std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> first >> grown;
  return grown / kFarLarger > asked ? 0 : asked;
}

// Over TCP, peers whose death is to be told are sent large messages through segments, which are copied once more than what UCX 1.13
// puts to others (bench/transport/run):
// - Segments of 64 KiB, UCX's own, gave 0.55 to 0.7 of the bandwidth of the better peer, these 0.65 to 1. Neither larger ones nor
//   messages in pieces gave more.
// - Where the receiver is the slower one, a receive buffer that Linux lets grow overflows under bbr: 0.6 of the bandwidth to 8 MiB.
//   The one given here does not grow, so it is asked for only where it is large from the start.
void prefer_bandwidth_over_tcp(ucp_config_t* config) {
  constexpr std::size_t kLargeBuffer = 4 << 20, kLargestBuffer = 16 << 20;
  // UCX warns of settings of lanes that it does not open.
  if (!ucx_may_use({"all", "tcp"}) || std::getenv("UCX_NET_DEVICES") != nullptr) return;
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  const std::string prefix = std::pair(major, minor) >= std::pair(1U, 17U) ? "TCP_" : "";  // which names it knows them by
  const auto modify = [&](const char* name, const std::string& value) {
    (void)ucp_config_modify(config, (prefix + name).c_str(), value.c_str());
  };
  // One size must not be smaller than the other.
  if (std::getenv("UCX_TCP_TX_SEG_SIZE") == nullptr && std::getenv("UCX_TCP_RX_SEG_SIZE") == nullptr) {
    modify("TX_SEG_SIZE", "256k");
    modify("RX_SEG_SIZE", "256k");
  }
  const std::size_t buffer = std::min(largest_receive_buffer(), kLargestBuffer);
  if (std::getenv("UCX_TCP_RCVBUF") == nullptr && buffer >= kLargeBuffer) modify("RCVBUF", std::to_string(buffer));
}

// UCX says "Input/output error" where it gets no descriptor.
std::string few_descriptors() {
  constexpr rlim_t kFew = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFew) return "";
  return fmt::format(" (this process may have {} descriptors only: ulimit -n)", limit.rlim_cur);
}

}  // namespace

bool ucx_may_use(std::initializer_list<std::string_view> names) {
  const char* text = std::getenv("UCX_TLS");
  if (text == nullptr || *text == '\0') return true;
  std::string_view rest(text);
  const bool excludes = rest.starts_with('^');
  if (excludes) rest.remove_prefix(1);
  bool found = false;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    found = found || std::find(names.begin(), names.end(), rest.substr(0, comma)) != names.end();
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return found != excludes;
}

Result<std::unique_ptr<UcxWorker>> UcxWorker::open() {
  std::unique_ptr<UcxWorker> made(new UcxWorker);
  SPARCL_RETURN_IF_ERROR(made->init());
  return made;
}

Status UcxWorker::init() {
  ucp_config_t* config = nullptr;
  SPARCL_RETURN_IF_ERROR(ucx_status(ucp_config_read(nullptr, nullptr, &config), "reading UCX's settings (UCX_...)"));
  prefer_bandwidth_over_tcp(config);
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "sparcl";
  const ucs_status_t initialised = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  SPARCL_RETURN_IF_ERROR(
      ucx_status(initialised, "ucp_init (UCX_TLS and UCX_NET_DEVICES say what it may use; `ucx_info -d` what there is)"));

  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  SPARCL_RETURN_IF_ERROR(
      ucx_status(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create" + few_descriptors()));
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
