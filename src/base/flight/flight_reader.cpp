#include "src/base/flight/flight_reader.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/error_text.hpp"
#include "src/base/process_info.hpp"

namespace sparcl::flight {
namespace {

constexpr int kLooks = 8;  // readings of a file whose records change meanwhile; a writer that died
                           // in a record never ends it

using Bytes = std::vector<std::byte>;

Status read_all(int descriptor, const std::string& name, Bytes& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return Status(Code::kSystemError, fmt::format("{}: {}", name, error_text(errno)));
    if (count == 0)
      return Status(Code::kCorrupt, fmt::format("{}: is cut off at byte {}, {} are needed", name,
                                                done, bytes.size()));
    done += static_cast<std::size_t>(count);
  }
  return {};
}

Status check_head(const FileHead& head, const std::string& name) {
  if (head.magic != kMagic)
    return Status(Code::kCorrupt,
                  fmt::format("{}: is no flight record, or one that is only being made", name));
  if (head.layout_version != kLayoutVersion) {
    return Status(Code::kUnsupported, fmt::format("{}: has layout {}, this program reads {}: use "
                                                  "the `sparcl` of the library that made it",
                                                  name, head.layout_version, kLayoutVersion));
  }
  const bool same_sizes = head.trail_bytes == kTrailBytes && head.record_count == kRecords &&
                          head.record_bytes == sizeof(Published<Record>);
  if (!same_sizes || head.trails_used > kTrails || head.pid <= 0 || head.pid > INT32_MAX) {
    return Status(Code::kCorrupt, fmt::format("{}: the head is damaged", name));
  }
  return {};
}

// Three readings one after the other. A value did not change in the second if its sequence is the
// same, and even, in the first and the third.
struct ThreeLooks {
  Bytes before, middle, after;

  template <class T>
  bool take(std::size_t at, T& value) const {
    std::uint64_t first, last;
    std::memcpy(&first, before.data() + at, sizeof first);
    std::memcpy(&last, after.data() + at, sizeof last);
    if (first != last || first % 2 != 0) return false;
    std::memcpy(static_cast<void*>(&value), middle.data() + at + sizeof first, sizeof value);
    return true;
  }
};

Result<ThreeLooks> look(int descriptor, const std::string& name, std::size_t bytes) {
  ThreeLooks looks{Bytes(bytes), Bytes(bytes), Bytes(bytes)};
  for (Bytes* each : {&looks.before, &looks.middle, &looks.after})
    SPARCL_RETURN_IF_ERROR(read_all(descriptor, name, *each));
  return looks;
}

// Returns the number of partially written values.
std::size_t take_trails(const ThreeLooks& looks, std::size_t used, Snapshot& snapshot) {
  snapshot.trails.clear();
  snapshot.torn_heads = 0;
  std::size_t torn = 0;
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t at = kPageBytes + i * kTrailBytes;
    TrailSnapshot trail;
    if (!looks.take(at, trail.head)) {
      ++snapshot.torn_heads, ++torn;
      continue;
    }
    if (trail.head.state == TrailState::kFree)
      continue;  // also a trail in the process's plain memory
    for (std::size_t slot = 0; slot < kRecords; ++slot) {
      Record record;
      if (looks.take(at + offsetof(Trail, records) + slot * sizeof(Published<Record>), record)) {
        trail.records.add(record);
      } else {
        ++trail.records.torn, ++torn;
      }
    }
    snapshot.trails.push_back(std::move(trail));
  }
  return torn;
}

void look_at_process(Snapshot& snapshot) {
  snapshot.life = life_of(snapshot.head);
  if (snapshot.life == Life::kRunning || snapshot.life == Life::kStopped) {
    snapshot.system_state = process_info(static_cast<pid_t>(snapshot.head.pid)).state;
  }
}

}  // namespace

Result<Snapshot> read_record(int descriptor, const std::string& name) {
  Snapshot snapshot;
  if (read_head(descriptor, snapshot.head) != sizeof snapshot.head) {
    return Status(Code::kCorrupt, fmt::format("{}: is too short for a flight record", name));
  }
  SPARCL_RETURN_IF_ERROR(check_head(snapshot.head, name));
  look_at_process(snapshot);
  const auto used = static_cast<std::size_t>(snapshot.head.trails_used);
  for (int i = 0; i < kLooks; ++i) {
    SPARCL_ASSIGN_OR_RETURN(const ThreeLooks looks,
                            look(descriptor, name, kPageBytes + used * kTrailBytes));
    if (take_trails(looks, used, snapshot) == 0) break;
  }
  return snapshot;
}

Result<Snapshot> read_record(const RecordPath& record) {
  SPARCL_ASSIGN_OR_RETURN(const int file, open_record(record));
  Result<Snapshot> snapshot = read_record(file, record.path);
  ::close(file);
  return snapshot;
}

std::vector<SeenRecord> read_records(std::vector<RecordPath> found) {
  std::vector<SeenRecord> seen;
  for (RecordPath& path : found) {
    Result<Snapshot> snapshot = read_record(path);
    struct stat entry;
    const bool has_gone =
        !snapshot.ok() && ::lstat(path.path.c_str(), &entry) != 0 && errno == ENOENT;
    if (!has_gone) seen.push_back({std::move(path), std::move(snapshot)});
  }
  return seen;
}

double wall_seconds(const FileHead& head, std::uint64_t monotonic_ns) {
  const double since_start =
      static_cast<double>(monotonic_ns) - static_cast<double>(head.monotonic_ns);
  return (static_cast<double>(head.wall_ns) + since_start) * 1e-9;
}

}  // namespace sparcl::flight
