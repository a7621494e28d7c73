#include "src/base/flight/flight_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "src/base/error_text.hpp"
#include "src/base/file_size_signal.hpp"
#include "src/base/folder_list.hpp"
#include "src/base/memory_file.hpp"
#include "src/base/process_info.hpp"

namespace sparcl::flight {
namespace {

constexpr std::string_view kPrefix = "sparcl-flight-";

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// "sparcl-flight-UID-PID", and nothing else.
std::optional<RecordPath> parse_name(const std::string& folder, std::string_view name) {
  RecordPath found;
  found.path = fmt::format("{}/{}", folder, name);
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  if (!take_number(name, found.user) || !name.starts_with('-')) return {};
  name.remove_prefix(1);
  if (!take_number(name, found.pid) || !name.empty() || found.pid <= 0) return {};
  return found;
}

void mark_dead(int descriptor, std::int64_t now_wall_ns) {
  const FileSizeSignalBlock no_signal;
  const ssize_t written =
      ::pwrite(descriptor, &now_wall_ns, sizeof now_wall_ns, offsetof(FileHead, found_dead_ns));
  (void)written;  // a record that cannot be marked stays
}

struct DeadRecord {
  RecordPath record;
  std::int64_t found_ns = 0;  // when a process first saw this one dead
  std::int64_t bytes = 0;     // that it takes
};

// Nothing if its process may be alive.
std::optional<DeadRecord> look_for_dead(const RecordPath& record, std::int64_t now_wall_ns) {
  const Result<int> opened = open_record(record);
  if (!opened.ok()) return {};
  FileHead head;
  struct stat found;
  const bool dead = read_head(*opened, head) == sizeof head && life_of(head) == Life::kDead &&
                    ::fstat(*opened, &found) == 0;
  ::close(*opened);
  if (!dead) return {};
  DeadRecord seen{record, head.found_dead_ns, static_cast<std::int64_t>(found.st_blocks) * 512};
  if (seen.found_ns != 0 && seen.found_ns <= now_wall_ns) return seen;
  seen.found_ns = now_wall_ns;
  if (const int file = ::open(record.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC); file >= 0) {
    mark_dead(file, now_wall_ns);
    ::close(file);
  }
  return seen;
}

// The file has no head: only its name tells its owner.
bool is_left_empty(int descriptor, const RecordPath& record) {
  FileHead head;
  if (read_head(descriptor, head) == sizeof head && head.magic != decltype(head.magic){})
    return false;
  struct stat found;
  const ProcessInfo process = process_info(record.pid);
  return process.is_dead() ||
         (::fstat(descriptor, &found) == 0 && !process.may_have_changed(found));
}

// root leaves the records of other users to them.
std::vector<RecordPath> find_own_records(const std::vector<std::string>& folders) {
  std::vector<RecordPath> records = find_records(folders);
  std::erase_if(records, [](const RecordPath& record) { return record.user != ::geteuid(); });
  return records;
}

// Sets the size without taking memory. The first page must exist, because a write to a missing page
// is a SIGBUS.
int create_in(const RecordPath& record) {
  const auto open_new = [&] {
    return ::open(record.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  };
  int file = open_new();
  if (file < 0 && errno == EEXIST && remove_if_dead(record)) file = open_new();
  if (file < 0) return -1;
  int error = !may_make_file_of(kImageBytes)        ? EFBIG
              : ::ftruncate(file, kImageBytes) == 0 ? 0
                                                    : errno;
  if (error == 0) error = ::posix_fallocate(file, 0, kPageBytes);
  if (error == 0) return file;
  ::unlink(record.path.c_str());
  ::close(file);
  errno = error;
  return -1;
}

}  // namespace

std::vector<std::string> record_folders() {
  std::vector<std::string> folders{"/dev/shm"};
  if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && *own == '/')
    folders.emplace_back(own);
  folders.emplace_back("/tmp");
  return folders;
}

std::vector<RecordPath> find_records(const std::vector<std::string>& folders) {
  std::vector<RecordPath> records;
  for (const std::string& folder : folders) {
    const Result<std::vector<std::string>> names = names_in_folder(folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      std::optional<RecordPath> record = parse_name(folder, name);
      if (record && (record->user == ::geteuid() || ::geteuid() == 0))
        records.push_back(std::move(*record));
    }
  }
  std::sort(records.begin(), records.end(),
            [](const RecordPath& a, const RecordPath& b) { return a.pid < b.pid; });
  return records;
}

std::vector<RecordPath> find_records_of(pid_t pid, const std::vector<std::string>& folders) {
  std::vector<RecordPath> records = find_records(folders);
  std::erase_if(records, [pid](const RecordPath& record) { return record.pid != pid; });
  return records;
}

Result<NewFile> create_record(const std::vector<std::string>& folders) {
  std::string reasons;
  for (const std::string& folder : folders) {
    const std::string path = fmt::format("{}/{}{}-{}", folder, kPrefix, ::geteuid(), ::getpid());
    const int file = create_in({path, ::geteuid(), ::getpid()});
    if (file >= 0) return NewFile{path, file};
    const int error = errno;
    reasons += fmt::format("{}{}: {}{}", reasons.empty() ? "" : "; ", path, error_text(error),
                           error == EFBIG ? file_size_limit_text() : "");
  }
  return Status(Code::kSystemError, "no file for the flight record: " + reasons);
}

Result<int> open_record(const RecordPath& record) {
  // Not blocking: it might be a named pipe.
  const int file = ::open(record.path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return Status(Code::kSystemError, fmt::format("{}: {}", record.path, error_text(errno)));
  struct stat found;
  if (::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == record.user &&
      (found.st_mode & 022) == 0)
    return file;
  ::close(file);
  return Status(Code::kUnauthorized,
                fmt::format("{} is no file that user {} alone can write: it is not read",
                            record.path, record.user));
}

std::size_t read_head(int descriptor, FileHead& head) {
  const ssize_t count = ::pread(descriptor, &head, sizeof head, 0);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

const char* life_name(Life life) {
  switch (life) {
    case Life::kRunning:
      return "running";
    case Life::kStopped:
      return "stopped";
    case Life::kDead:
      return "dead";
    case Life::kUnknown:
      break;
  }
  return "unknown";
}

Life life_of(const FileHead& head) {
  const bool is_ours =
      head.magic == kMagic && head.layout_version == kLayoutVersion && head.pid > 0;
  if (!is_ours || head.pid_namespace != own_pid_namespace()) return Life::kUnknown;
  const ProcessInfo process = process_info(static_cast<pid_t>(head.pid));
  if (process.is_dead() || process.start_ticks != head.process_start) return Life::kDead;
  return process.is_stopped() ? Life::kStopped : Life::kRunning;
}

bool is_left_empty(const RecordPath& record) {
  const Result<int> opened = open_record(record);
  if (!opened.ok()) return false;
  const bool is_empty = is_left_empty(*opened, record);
  ::close(*opened);
  return is_empty;
}

bool remove_if_dead(const RecordPath& record) {
  const Result<int> opened = open_record(record);
  if (!opened.ok()) return false;
  FileHead head;
  const bool is_dead = is_left_empty(*opened, record) ||
                       (read_head(*opened, head) == sizeof head && life_of(head) == Life::kDead);
  const bool is_gone = is_dead && ::unlink(record.path.c_str()) == 0;
  ::close(*opened);
  return is_gone;
}

std::vector<pid_t> remove_dead_records(const std::vector<std::string>& folders) {
  std::vector<pid_t> removed;
  for (const RecordPath& record : find_own_records(folders)) {
    if (remove_if_dead(record)) removed.push_back(record.pid);
  }
  return removed;
}

int remove_surplus_records(std::int64_t now_wall_ns, const std::vector<std::string>& folders,
                           std::int64_t max_bytes) {
  std::vector<DeadRecord> dead;
  int removed = 0;
  for (const RecordPath& record : find_own_records(folders)) {
    if (is_left_empty(record) && remove_if_dead(record))
      ++removed;  // nothing is in it that could be looked at
    if (const std::optional<DeadRecord> seen = look_for_dead(record, now_wall_ns))
      dead.push_back(*seen);
  }
  std::stable_sort(dead.begin(), dead.end(), [](const DeadRecord& a, const DeadRecord& b) {
    return a.found_ns > b.found_ns;
  });
  std::int64_t bytes = 0;
  for (const DeadRecord& each : dead) {
    bytes += each.bytes;
    if (bytes > max_bytes && remove_if_dead(each.record)) ++removed;
  }
  return removed;
}

}  // namespace sparcl::flight
