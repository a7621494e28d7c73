#pragma once
// The flight record in memory and in its file: a head, then one trail for each communicator with
// its last operations.
//
//   page 0         FileHead
//   page 1 + 5 i   trail i: Published<TrailHead>, then kRecords x Published<Record>
//
// In the byte order of the host, because readers are on the same machine. Times are nanoseconds of
// CLOCK_MONOTONIC.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "src/base/flight/published.hpp"

namespace sparcl::flight {

inline constexpr std::array<char, 8> kMagic{'s', 'p', 'a', 'r', 'c', 'l', 'F', 'R'};
inline constexpr std::uint32_t kLayoutVersion = 2;  // of this file: raise it with any change below
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kTrailBytes = 5 * kPageBytes;
inline constexpr std::size_t kTrails =
    256;  // communicators of a process; heuristic. Only used trails take memory.

template <std::size_t kBytes>
using Text = std::array<char, kBytes>;  // ends with its first zero, or is full
template <std::size_t kBytes>
void put(Text<kBytes>& into, std::string_view text) noexcept {
  const std::size_t length = text.copy(into.data(), kBytes);
  std::memset(into.data() + length, 0, kBytes - length);
}

enum class RecordState : std::uint32_t { kNone = 0, kRunning = 1, kDone = 2, kFailed = 3 };
inline constexpr std::uint32_t kNoCall = UINT32_MAX;  // an event, not a call: init, abort

struct Record {
  std::uint64_t order = 0;  // 1, 2, ... in its trail
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t count = 0;    // elements, or entries
  std::uint64_t version = 0;  // 0: none
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t wait_since_ns = 0;  // 0: it does not wait, or not for long
  std::uint32_t call = kNoCall;     // the call's number in its communicator, equal on all ranks
  RecordState state = RecordState::kNone;
  std::int32_t result = 0;  // a Code
  std::int32_t root = -1;
  std::int32_t datatype = -1;  // a DataType
  std::int32_t wait_peer = -1;
  Text<24> operation{};
  Text<64> detail{};
  Text<48> wait_purpose{};
  Text<72> wait_host{};  // "host h1, pid 4711"
};

enum class TrailState : std::uint32_t {
  kFree = 0,
  kLive = 1,
  kPoisoned = 2,
  kDestroyed = 3,
  kMeeting = 4
};

struct TrailHead {
  std::uint64_t comm = 0;
  std::uint64_t changed_ns = 0;  // of `state`
  std::uint64_t turned_ns = 0;   // when the engine last looked for messages, within 10 ms; 0: never
  std::int32_t rank = 0;
  std::int32_t size = 0;
  TrailState state = TrailState::kFree;
  std::int32_t error = 0;  // a Code: the error that poisoned it
  Text<16> transport{};
  Text<248> note{};  // the error that poisoned it; while ranks meet: the ranks that have come
};

inline constexpr std::size_t kRecords =
    (kTrailBytes - sizeof(Published<TrailHead>)) / sizeof(Published<Record>);

struct alignas(64) Trail {
  Published<TrailHead> head;
  std::array<Published<Record>, kRecords> records;
};
static_assert(sizeof(Trail) <= kTrailBytes && kRecords >= 48);

// All but the last two members are written before any trail is taken, and never again. The last two
// are written by std::atomic_ref.
struct FileHead {
  std::array<char, 8> magic{};
  std::uint32_t layout_version = 0;
  std::uint32_t trail_bytes = 0;
  std::uint32_t record_count = 0;
  std::uint32_t record_bytes = 0;
  std::int64_t pid = 0;
  std::uint64_t process_start =
      0;  // clock ticks since boot: tells a process from a later one with its pid
  std::uint64_t pid_namespace = 0;
  std::int64_t wall_ns =
      0;  // CLOCK_REALTIME when CLOCK_MONOTONIC was monotonic_ns: turns times into dates
  std::uint64_t monotonic_ns = 0;
  Text<16> version{};
  Text<128> host{};
  Text<64> program{};
  std::uint64_t trails_used = 0;  // the number of trails that have ever been taken
  std::int64_t found_dead_ns =
      0;  // CLOCK_REALTIME: when a process first saw this one gone; 0: none did
};
static_assert(sizeof(FileHead) <= kPageBytes);

inline constexpr std::size_t kImageBytes = kPageBytes + kTrails * kTrailBytes;

inline FileHead& head_of(std::byte* image) { return *reinterpret_cast<FileHead*>(image); }
inline Trail& trail_of(std::byte* image, std::size_t index) {
  return *reinterpret_cast<Trail*>(image + kPageBytes + index * kTrailBytes);
}

}  // namespace sparcl::flight
