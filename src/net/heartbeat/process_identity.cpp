#include "src/net/heartbeat/process_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "src/base/checksum.hpp"
#include "src/net/network_interfaces.hpp"

namespace sparcl::net {
namespace {

constexpr std::size_t kMaxHostBytes = 255;

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t inode(const char* path) {
  struct stat about {};
  return stat(path, &about) == 0 ? about.st_ino : 0;
}

// Field 22 of proc_pid_stat(5). The name, field 2, may hold anything, but ends at the last
// parenthesis.
std::uint64_t start_of(std::uint32_t pid) {
  const std::string text = content(fmt::format("/proc/{}/stat", pid));
  std::size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  std::uint64_t ticks = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + 1, text.data() + text.size(), ticks);
  return ticks;
}

bool same_boot(const ProcessIdentity& a, const ProcessIdentity& b) {
  return a.boot == b.boot && a.boot != std::array<std::byte, 16>{};
}

}  // namespace

void ProcessIdentity::write(ByteWriter& out) const {
  const std::string_view name = std::string_view(host).substr(0, kMaxHostBytes);
  out.write(static_cast<std::uint8_t>(name.size()));
  out.write_bytes(std::as_bytes(std::span(name)));
  out.write(pid);
  out.write(start);
  out.write_bytes(boot);
  out.write(pid_namespace);
  out.write(net_namespace);
}

bool ProcessIdentity::read(ByteReader& in) {
  std::uint8_t length = 0;
  std::span<const std::byte> name, id;
  if (!in.read(length) || !in.read_bytes(length, name) || !in.read(pid) || !in.read(start) ||
      !in.read_bytes(boot.size(), id))
    return false;
  if (!in.read(pid_namespace) || !in.read(net_namespace)) return false;
  host.clear();
  for (const std::byte byte : name)
    host += byte >= std::byte{0x20} && byte != std::byte{0x7f} ? static_cast<char>(byte) : '?';
  std::memcpy(boot.data(), id.data(), id.size());
  return true;
}

ProcessIdentity own_identity() {
  ProcessIdentity own;
  own.host = own_host_name();
  own.pid = static_cast<std::uint32_t>(getpid());
  own.start = start_of(own.pid);
  if (const std::string boot = content("/proc/sys/kernel/random/boot_id"); !boot.empty()) {
    const Hash128 hash = xxh3_128(std::as_bytes(std::span(boot)));
    store_le(own.boot.data(), hash.low);
    store_le(own.boot.data() + 8, hash.high);
  }
  own.pid_namespace = inode("/proc/self/ns/pid");
  own.net_namespace = inode("/proc/self/ns/net");
  return own;
}

bool shares_loopback(const ProcessIdentity& a, const ProcessIdentity& b) {
  return same_boot(a, b) && a.net_namespace == b.net_namespace && a.net_namespace != 0;
}

ProcessWatch watch_process(const ProcessIdentity& own, const ProcessIdentity& other,
                           Socket& descriptor) {
#ifdef SYS_pidfd_open
  const bool visible =
      same_boot(own, other) && own.pid_namespace == other.pid_namespace && own.pid_namespace != 0;
  if (!visible || other.pid == own.pid || other.pid == 0 || other.pid > INT32_MAX ||
      other.start == 0)
    return ProcessWatch::kUnknown;
  descriptor = Socket(
      static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(other.pid), 0)));  // with CLOEXEC
  if (!descriptor.is_open()) return errno == ESRCH ? ProcessWatch::kGone : ProcessWatch::kUnknown;
  // The descriptor keeps the process's id: if the process began when the rank did, it is the rank.
  const std::uint64_t start = start_of(other.pid);
  if (start == other.start) return ProcessWatch::kWatched;
  descriptor.close();
  return start == 0 ? ProcessWatch::kUnknown : ProcessWatch::kGone;
#else
  (void)own, (void)other, (void)descriptor;
  return ProcessWatch::kUnknown;
#endif
}

}  // namespace sparcl::net
