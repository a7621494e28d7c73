#pragma once
// The location of flight records: sparcl-flight-UID-PID in /dev/shm, else $XDG_RUNTIME_DIR, else
// /tmp. A process leaves its record behind if it is killed or meets an error that ends a
// communicator.

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/flight/flight_layout.hpp"
#include "src/base/status.hpp"

namespace sparcl::flight {

// In the order in which they are tried. /dev/shm is the same for every session of a user;
// $XDG_RUNTIME_DIR is not.
std::vector<std::string> record_folders();

struct RecordPath {
  std::string path;
  uid_t user = 0;
  pid_t pid = 0;
};

// The records that this user may read, of all processes or of one. root sees all users' records.
std::vector<RecordPath> find_records(const std::vector<std::string>& folders = record_folders());
std::vector<RecordPath> find_records_of(pid_t pid,
                                        const std::vector<std::string>& folders = record_folders());

// A file that is open for writing, of kImageBytes, with its first page present.
struct NewFile {
  std::string path;
  int descriptor = -1;
};
// The name is new, and no link is followed. The error says why each folder failed.
Result<NewFile> create_record(const std::vector<std::string>& folders = record_folders());

// A regular file of that user that no other user may write. The caller closes it.
Result<int> open_record(const RecordPath& record);

// From the head alone, without a look at the process.
enum class Life {
  kRunning,
  kStopped,
  kDead,
  kUnknown
};  // kUnknown: of another machine or container
const char* life_name(Life life);
Life life_of(const FileHead& head);
std::size_t read_head(int descriptor, FileHead& head);  // the bytes that were there

// A file without a record, of a dead process that ended, or was refused memory, before it wrote
// one.
bool is_left_empty(const RecordPath& record);

// Whether the file was one of a dead process, empty or not, and was removed.
bool remove_if_dead(const RecordPath& record);

// Removes all records of dead processes of this user. Returns their pids.
std::vector<pid_t> remove_dead_records(const std::vector<std::string>& folders = record_folders());

// The memory that records of dead processes of this user may take. Beyond it, the record that was
// first seen dead longest ago is removed. heuristic: some 600 records of one communicator.
inline constexpr std::int64_t kKeptDeadBytes = 16 << 20;
// Marks the records whose process is dead now. Returns how many it removed.
int remove_surplus_records(std::int64_t now_wall_ns,
                           const std::vector<std::string>& folders = record_folders(),
                           std::int64_t max_bytes = kKeptDeadBytes);

}  // namespace sparcl::flight
