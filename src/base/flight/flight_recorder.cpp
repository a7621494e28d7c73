#include "src/base/flight/flight_recorder.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "src/base/error_text.hpp"
#include "src/base/file_size_signal.hpp"
#include "src/base/flight/flight_file.hpp"
#include "src/base/flight/flight_signal.hpp"
#include "src/base/forever.hpp"
#include "src/base/log.hpp"
#include "src/base/process_info.hpp"
#include "src/base/settings.hpp"

namespace sparcl::flight {
namespace {

struct Recorder {
  std::mutex mutex;
  bool is_set_up = false;  // the process's handlers are there
  std::atomic<std::byte*> image{nullptr};
  int file = -1;     // stays open: trails get their memory when they are taken
  std::string path;  // empty: in plain memory
  pid_t owner = 0;
  std::atomic<bool> keeps_file{false};  // when the process ends
};

Recorder& recorder() {
  static Forever<Recorder> one;  // communicators may outlive every static object
  return *one;
}

std::byte* map_shared(int file) {
  void* at = ::mmap(nullptr, kImageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at != MAP_FAILED ? static_cast<std::byte*>(at) : nullptr;
}

// If `at` is not null, replaces the mapping there: the whole image or some trails.
std::byte* map_private(std::byte* at, std::size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0);
  void* made = ::mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return made != MAP_FAILED ? static_cast<std::byte*>(made) : nullptr;
}

void fill_head(FileHead& head) {
  const ProcessInfo process = process_info(::getpid());
  head.trail_bytes = kTrailBytes;
  head.record_count = kRecords;
  head.record_bytes = sizeof(Published<Record>);
  head.pid = ::getpid();
  head.process_start = process.start_ticks;
  head.pid_namespace = own_pid_namespace();
  head.wall_ns = wall_ns();
  head.monotonic_ns = monotonic_ns();
  put(head.version, SPARCL_VERSION_TEXT);
  put(head.host, host_name());
  put(head.program, process.program);
  head.layout_version = kLayoutVersion;
  head.magic = kMagic;  // last: a reader that comes too early finds no record
}

void remove_file_at_end() {
  Recorder& one = recorder();
  const std::lock_guard lock(one.mutex);
  if (one.keeps_file || one.path.empty() || one.owner != ::getpid()) return;
  ::unlink(one.path.c_str());
  one.path.clear();
}

// Gives a forked child memory of its own instead of the shared pages. The child's changes to its
// copies of the communicators must not show in its parent's record. The child's own communicators
// begin a record of their own.
void leave_record_to_parent() {
  Recorder& one = recorder();
  if (std::byte* image = one.image.load(); image != nullptr) (void)map_private(image, kImageBytes);
  one.image.store(nullptr);
  if (one.file >= 0) ::close(one.file);
  one.file = -1;
  one.path.clear();
  one.keeps_file = false;
  one.mutex.unlock();
}

// Not by std::call_once: an exception that leaves it passes through the C library, which aborts if
// it has no memory to load its unwinder.
void set_up_process(Recorder& one) {
  if (std::exchange(one.is_set_up, true)) return;
  ::pthread_atfork([] { recorder().mutex.lock(); }, [] { recorder().mutex.unlock(); },
                   leave_record_to_parent);
  (void)std::atexit([] {
    remove_file_at_end();
    remove_dump_handler();
  });
  install_dump_handler();
  (void)remove_surplus_records(wall_ns());
}

// nullptr if no file can be made.
std::byte* map_file(Recorder& one) {
  const Result<NewFile> file = create_record();
  if (!file.ok()) {
    log_warn(
        "{}: the flight record is kept in memory, where `sparcl status` cannot look "
        "(SPARCL_FLIGHT=off: no record)",
        file.status().message());
    return nullptr;
  }
  std::byte* image = map_shared(file->descriptor);
  if (image == nullptr) {
    ::unlink(file->path.c_str());
    ::close(file->descriptor);
    return nullptr;
  }
  one.file = file->descriptor;
  one.path = file->path;
  one.owner = ::getpid();
  return image;
}

std::byte* make_image(Recorder& one) {
  std::byte* image = map_file(one);
  if (image == nullptr) image = map_private(nullptr, kImageBytes);
  if (image == nullptr) return nullptr;
  fill_head(head_of(image));
  one.image.store(image, std::memory_order_release);
  return image;
}

// The pages of a file must exist before they are written: a full file system is an error here, and
// a SIGBUS later.
bool back_by_memory(const Recorder& one, std::byte* image, std::size_t index) {
  if (one.file < 0) return true;
  const auto at = static_cast<off_t>(kPageBytes + index * kTrailBytes);
  const FileSizeSignalBlock no_signal;  // the limit may have been lowered meanwhile
  if (const int error = ::posix_fallocate(one.file, at, kTrailBytes); error != 0) {
    static std::atomic_flag is_said;
    if (!is_said.test_and_set())
      log_warn(
          "{}: {}: this process's further flight records are kept in memory, where `sparcl status` "
          "cannot look",
          one.path, error_text(error));
    return map_private(image + at, kTrailBytes) != nullptr;
  }
  return true;
}

Trail* oldest_destroyed(std::byte* image) {
  Trail* oldest = nullptr;
  std::uint64_t since = UINT64_MAX;
  for (std::size_t i = 0; i < kTrails; ++i) {
    const TrailHead head = trail_of(image, i).head.held();
    if (head.state != TrailState::kDestroyed || head.changed_ns >= since) continue;
    since = head.changed_ns;
    oldest = &trail_of(image, i);
  }
  if (oldest == nullptr) return nullptr;
  for (Published<Record>& record : oldest->records) record.store(Record{});
  return oldest;
}

Trail* next_trail(const Recorder& one, std::byte* image) {
  const std::atomic_ref used(head_of(image).trails_used);
  const std::uint64_t index = used.load();
  if (index < kTrails) {
    if (!back_by_memory(one, image, index)) return nullptr;
    used.store(index + 1);
    return &trail_of(image, index);
  }
  Trail* trail = oldest_destroyed(image);
  if (trail == nullptr)
    log_debug("more than {} communicators: the others have no flight record", kTrails);
  return trail;
}

}  // namespace

Trail* take_trail(const TrailHead& head) {
  const Result<std::string> wanted = setting_choice("FLIGHT");
  if (!wanted.ok() || *wanted == "off") return nullptr;
  Recorder& one = recorder();
  const std::lock_guard lock(one.mutex);
  set_up_process(one);
  std::byte* image = one.image.load(std::memory_order_relaxed);
  if (image == nullptr) image = make_image(one);
  if (image == nullptr) return nullptr;
  Trail* trail = next_trail(one, image);
  if (trail != nullptr) trail->head.store(head);
  return trail;
}

std::byte* image() noexcept { return recorder().image.load(std::memory_order_acquire); }

void keep_record() noexcept { recorder().keeps_file = true; }

std::string record_path() {
  const std::lock_guard lock(recorder().mutex);
  return recorder().path;
}

Status check_flight_settings() {
  SPARCL_RETURN_IF_ERROR(setting_choice("FLIGHT").status());
  return setting_choice("FLIGHT_SIGNAL").status();
}

}  // namespace sparcl::flight
