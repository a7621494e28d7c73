#pragma once
// Reads the flight record of another process, which may be writing it, be stopped or be dead. The
// bytes are not trusted.

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/flight/flight_file.hpp"
#include "src/base/flight/flight_layout.hpp"
#include "src/base/flight/flight_text.hpp"
#include "src/base/status.hpp"

namespace sparcl::flight {

struct TrailSnapshot {
  TrailHead head;
  RecordList records;
};

struct Snapshot {
  FileHead head;
  Life life = Life::kUnknown;
  char system_state = '?';  // of /proc/PID/stat, if there is such a process
  std::vector<TrailSnapshot> trails;
  std::size_t torn_heads = 0;
};

Result<Snapshot> read_record(const RecordPath& record);
// The same from an open file. It is read with pread() alone: a file that shrinks is an error, never
// a SIGBUS.
Result<Snapshot> read_record(int descriptor, const std::string& name);

// A record that was found, and its contents or why it cannot be read.
struct SeenRecord {
  RecordPath path;
  Result<Snapshot> snapshot;
};
// Without records that were removed since they were found, because their processes ended.
std::vector<SeenRecord> read_records(std::vector<RecordPath> found);

// A time of the record as seconds since 1970.
double wall_seconds(const FileHead& head, std::uint64_t monotonic_ns);

}  // namespace sparcl::flight
