#pragma once
// Lines about a flight record, the same in the log, in the dump on a signal, and in `sparcl
// status`.

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/flight/flight_layout.hpp"
#include "src/base/flight/line_writer.hpp"

namespace sparcl::flight {

const char* trail_state_name(TrailState state) noexcept;
const char* record_state_name(RecordState state) noexcept;

// "comm 1: rank 2 of 8 over ucx, live"
void describe_trail(const TrailHead& head, std::uint64_t now_ns, LineWriter& line) noexcept;

// "call 13 BroadcastUpdate, root 0, version 5: RUNNING for 53.112 s, waits for rank 3 (host h2, pid
// 88) for 53.100 s: the next fragment"
void describe_record(const Record& record, std::uint64_t now_ns, LineWriter& line) noexcept;

// The same for consecutive calls that all succeeded and differ in their number alone.
void describe_run(const Record& first, const Record& last, std::uint64_t now_ns,
                  LineWriter& line) noexcept;
bool is_same_but_number(const Record& a, const Record& b) noexcept;

// The records of a trail, oldest first, and the number of those that were partially written at
// each reading. It allocates nothing.
struct RecordList {
  std::array<Record, kRecords> records;
  std::size_t count = 0;
  std::size_t torn = 0;

  void add(const Record& record) noexcept;  // in order
  // Calls show(line) for each line about the last `most` records.
  template <class Show>
  void show(std::size_t most, std::uint64_t now_ns, Show&& show) const {
    for (std::size_t i = count - (most < count ? most : count); i < count;) {
      std::size_t last = i;
      while (last + 1 < count && is_same_but_number(records[i], records[last + 1])) ++last;
      LineWriter line;
      describe_run(records[i], records[last], now_ns, line);
      show(line);
      i = last + 1;
    }
  }
};
void collect(const Trail& trail, RecordList& list) noexcept;

}  // namespace sparcl::flight
