#pragma once
// Where flight records lie: sparcl-flight-UID-PID in /dev/shm, else $XDG_RUNTIME_DIR, else /tmp. A
// process that was killed, or that met an error that ended a communicator, leaves its own behind,
// to be looked at.

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/flight/flight_layout.hpp"
#include "src/base/status.hpp"

namespace sparcl::flight {

// Most tried first. /dev/shm is the same for every session of a user, which $XDG_RUNTIME_DIR is
// not.
std::vector<std::string> record_folders();

struct RecordPath {
  std::string path;
  uid_t user = 0;
  pid_t pid = 0;
};

// The records that this user may read, of all processes or of one. root sees everybody's.
std::vector<RecordPath> find_records(const std::vector<std::string>& folders = record_folders());
std::vector<RecordPath> find_records_of(pid_t pid,
                                        const std::vector<std::string>& folders = record_folders());

// A file that was opened for writing, with kImageBytes of which the first page is there.
struct NewFile {
  std::string path;
  int descriptor = -1;
};
// Its name is taken by nobody else, and no link is followed. The error says why each folder was of
// no use.
Result<NewFile> create_record(const std::vector<std::string>& folders = record_folders());

// A regular file of that user that nobody else may write. The caller closes it.
Result<int> open_record(const RecordPath& record);

// What the head says, without a look at the process.
enum class Life {
  kRunning,
  kStopped,
  kDead,
  kUnknown
};  // kUnknown: of another machine or container
const char* life_name(Life life);
Life life_of(const FileHead& head);
std::size_t read_head(int descriptor, FileHead& head);  // the bytes that were there

// A file without a record in it, by a process that is dead: it ended, or was refused memory, before
// it wrote one.
bool is_left_empty(const RecordPath& record);

// Whether it was one of a dead process, empty or not, and is gone.
bool remove_if_dead(const RecordPath& record);

// All that dead processes of this user left. Returns whose.
std::vector<pid_t> remove_dead_records(const std::vector<std::string>& folders = record_folders());

// What dead processes of this user left may take so much memory; beyond that, who was first seen
// dead longest ago goes. heuristic: some 600 records of one communicator.
inline constexpr std::int64_t kKeptDeadBytes = 16 << 20;
// Marks those that are seen dead now. Returns how many it removed.
int remove_surplus_records(std::int64_t now_wall_ns,
                           const std::vector<std::string>& folders = record_folders(),
                           std::int64_t max_bytes = kKeptDeadBytes);

}  // namespace sparcl::flight
