#include "src/transport/ucx_needs.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "src/base/memory_file.hpp"
#include "src/net/network_interfaces.hpp"
#include "src/net/signals_blocked.hpp"
#include "src/net/socket.hpp"

namespace sparcl::transport {
namespace {

constexpr const char* kWithoutPosix = "set UCX_TLS=^posix on all ranks";

bool uses_posix() { return ucx_may_use({"all", "shm", "sm", "mm", "posix"}); }

Finding not_used(const char* name) {
  return {name, true, fmt::format("not used (UCX_TLS={})", std::getenv("UCX_TLS")), {}, {}};
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : fmt::to_string(limit);
}

rlim_t limit_of(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 ? limit.rlim_cur
                                                                              : RLIM_INFINITY;
}

std::optional<std::uint64_t> count_open_descriptors() {
  DIR* const entries = ::opendir("/proc/self/fd");
  if (entries == nullptr) return {};
  std::uint64_t count = 0;
  while (const dirent* const entry = ::readdir(entries)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(entries);
  return count - 1;  // without the folder's own
}

// Threads that wait for each other, so that all exist at once.
struct ThreadProbe {
  static constexpr int kThreads = 4;  // UCX's, the heartbeat's, the bootstrap's; one to spare
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::array<pthread_t, kThreads> threads{};
  int started = 0;
  int error = 0;

  static void* wait(void* probe) {
    pthread_mutex_t& mutex = static_cast<ThreadProbe*>(probe)->mutex;
    ::pthread_mutex_lock(&mutex);
    ::pthread_mutex_unlock(&mutex);
    return nullptr;
  }

  void run() {
    const net::SignalsBlocked blocked;
    ::pthread_mutex_lock(&mutex);
    while (started < kThreads && error == 0) {
      error = ::pthread_create(&threads[static_cast<std::size_t>(started)], nullptr, wait, this);
      if (error == 0) ++started;
    }
    ::pthread_mutex_unlock(&mutex);
    for (int i = 0; i < started; ++i) ::pthread_join(threads[static_cast<std::size_t>(i)], nullptr);
  }
};

// Neither shared memory nor RDMA is left in UCX_TLS.
bool relies_on_tcp() {
  return !ucx_may_use({"all",  "shm",  "sm",       "mm",      "posix", "sysv",     "xpmem",   "cma",
                       "knem", "ib",   "rc",       "rc_v",    "rc_x",  "rc_verbs", "rc_mlx5", "ud",
                       "ud_v", "ud_x", "ud_verbs", "ud_mlx5", "dc",    "dc_x",     "dc_mlx5"});
}

std::string word_in(const char* path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
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

Finding check_ucx_shared_memory() {
  if (!uses_posix()) return not_used("shared_memory");
  const char* const own = std::getenv("UCX_POSIX_DIR");
  const std::string folder = own != nullptr && *own != '\0' ? own : "/dev/shm";
  Finding finding{
      "shared_memory",
      false,
      {},
      fmt::format("transport ucx needs {} there for each rank", megabytes(kUcxSharedBytes)),
      fmt::format("give it more (docker run --shm-size=1g; mount -o remount,size=1G {}), or {}",
                  folder, kWithoutPosix)};
  struct statvfs found {};
  if (::statvfs(folder.c_str(), &found) != 0) {
    finding.found = fmt::format("{} cannot be used ({})", folder, error_text(errno));
    return finding;
  }
  const std::uint64_t free_bytes = std::uint64_t{found.f_bavail} * found.f_frsize;
  finding.found = fmt::format("{} has {} free of {}", folder, megabytes(free_bytes),
                              megabytes(std::uint64_t{found.f_blocks} * found.f_frsize));
  finding.ok = free_bytes >= kUcxSharedBytes;
  if (finding.ok)
    finding.found += fmt::format(": enough for {} ranks", free_bytes / kUcxSharedBytes);
  return finding;
}

Finding check_ucx_file_size() {
  if (!uses_posix()) return not_used("file_size");
  const rlim_t limit = limit_of(RLIMIT_FSIZE);
  return {"file_size", may_make_file_of(kUcxSharedBytes),
          fmt::format("files may have {}", limit == RLIM_INFINITY ? "any size" : megabytes(limit)),
          fmt::format("transport ucx needs one of {} in shared memory", megabytes(kUcxSharedBytes)),
          fmt::format("raise the limit (ulimit -f unlimited), or {}", kWithoutPosix)};
}

Finding check_ucx_descriptors(int ranks) {
  constexpr std::uint64_t kOfWorker =
      40;  // 17 with two network interfaces (UCX 1.13), 6 of this library, and some room
  const rlim_t limit = limit_of(RLIMIT_NOFILE);
  const std::uint64_t open = count_open_descriptors().value_or(3);
  const std::uint64_t need = open + kOfWorker + 2 * static_cast<std::uint64_t>(ranks);
  return {"descriptors", limit == RLIM_INFINITY || limit >= need,
          fmt::format("this process may have {} descriptors and has {}", limit_text(limit), open),
          fmt::format("transport ucx needs up to {} with {} ranks", need, ranks),
          fmt::format("raise the limit (ulimit -n {})", std::max<std::uint64_t>(1024, need))};
}

Finding check_ucx_threads() {
  ThreadProbe probe;
  probe.run();
  Finding finding{
      "threads", probe.error == 0, fmt::format("{} threads could be started", probe.started),
      fmt::format("transport ucx needs {}", ThreadProbe::kThreads),
      "raise the limit of processes (ulimit -u), or of the container (docker run --pids-limit)"};
  if (finding.ok) return finding;
  const std::string pids = word_in("/sys/fs/cgroup/pids.max");
  finding.found = fmt::format("{} of {} threads could be started ({}; ulimit -u is {}{})",
                              probe.started, ThreadProbe::kThreads, error_text(probe.error),
                              limit_text(limit_of(RLIMIT_NPROC)),
                              pids.empty() ? "" : ", the container's limit is " + pids);
  return finding;
}

// UCX 1.13 accepts neither ::1 nor link-local addresses.
Finding check_ucx_network() {
  Finding finding{"network", true, {}, {}, {}};
  const Result<std::vector<net::InterfaceAddress>> present = net::list_interfaces();
  std::vector<std::string> outer, inner;
  for (const net::InterfaceAddress& each :
       present.ok() ? *present : std::vector<net::InterfaceAddress>()) {
    const bool is_ipv4 = each.address.family == net::NetAddress::Family::kIpv4;
    if (!is_ipv4 && (each.loopback || is_link_local(each.address))) continue;
    std::vector<std::string>& names = each.loopback ? inner : outer;
    if (std::find(names.begin(), names.end(), each.name) == names.end()) names.push_back(each.name);
  }
  if (!outer.empty()) {
    finding.found = fmt::format("UCX can reach other machines at {}", fmt::join(outer, ", "));
  } else if (!relies_on_tcp() || !inner.empty()) {
    finding.found =
        "no network interface with an address for other machines: all ranks must be on this one";
  } else {
    finding.ok = false;
    finding.found = "no network interface that is up has an IPv4 address or a global IPv6 address";
    finding.need = fmt::format("transport ucx needs one with UCX_TLS={}", std::getenv("UCX_TLS"));
    finding.cure =
        "give an interface such an address (ip address add), or leave shared memory in UCX_TLS";
  }
  return finding;
}

std::vector<Finding> check_ucx_needs(int ranks) {
  return {check_ucx_shared_memory(), check_ucx_file_size(), check_ucx_descriptors(ranks),
          check_ucx_threads(), check_ucx_network()};
}

}  // namespace sparcl::transport
