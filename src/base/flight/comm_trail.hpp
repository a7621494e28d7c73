#pragma once
// The entries of one communicator in the flight record. One thread at a time, like the communicator
// itself. Every call costs tens of nanoseconds, no system call and no lock. Without a trail
// (SPARCL_FLIGHT=off) it does nothing.

#include <array>
#include <cstdint>
#include <string_view>

#include "src/base/flight/flight_layout.hpp"
#include "src/base/status.hpp"

namespace sparcl::flight {

// The properties of a call; those that do not apply keep their defaults.
struct CallNote {
  const char* operation = "";  // "BroadcastDelta"
  std::uint64_t count = 0;     // elements, or entries
  std::uint64_t version = 0;
  int root = -1;
  int datatype = -1;          // a DataType
  std::string_view detail{};  // what is counted: "tensors"
};

struct CommNote {
  std::uint64_t id = 0;
  int rank = 0;
  int size = 0;
  std::string_view transport;
};

struct WaitNote {
  int peer = -1;
  std::string_view host{};     // "host h1, pid 4711"
  std::string_view purpose{};  // "the next fragment of the update"
  double seconds = 0;          // duration until now
};

class CommTrail {
 public:
  CommTrail() = default;
  explicit CommTrail(const CommNote& comm);  // takes a trail of this process, if there is one
  CommTrail(const CommNote& comm, Trail& trail) : CommTrail(&trail, comm) {}
  CommTrail(const CommTrail&) = delete;
  CommTrail& operator=(const CommTrail&) = delete;
  CommTrail(CommTrail&& other) noexcept;
  CommTrail& operator=(CommTrail&& other) noexcept;
  ~CommTrail();

  // The trail of a communicator that is being made, because its ranks may wait for each other. It
  // becomes a communicator's at met(). `where`: "h1:4444".
  static CommTrail meeting(const CommNote& comm, std::string_view where);
  void meets(std::string_view who_is_here) noexcept;
  void met(const CommNote& comm) noexcept;
  void not_met(Code why) noexcept;

  const Trail* trail() const { return trail_; }

  void begin(std::uint32_t call, const CallNote& note) noexcept;
  void end(std::uint32_t call, Code result, std::uint64_t bytes_sent,
           std::uint64_t bytes_received) noexcept;
  // An event without a duration and a number: "CommInit", "CommAbort".
  void event(const char* operation, Code result, std::string_view detail = {}) noexcept;

  // The next three are for calls that have waited for a while, never for the fast path.
  void waits(std::uint32_t call, const WaitNote& note) noexcept;
  void waits_no_more(std::uint32_t call) noexcept;
  void turned() noexcept;

  // The first error counts. The record stays when the process ends.
  void poisoned(const Status& error) noexcept;

 private:
  CommTrail(Trail* trail, const CommNote& comm);
  void close() noexcept;
  void end_meeting(Code result) noexcept;
  std::size_t next_slot() noexcept;
  void add(const Record& record) noexcept;
  template <class Change>
  void change_call(std::uint32_t call, Change&& change) noexcept;
  template <class Change>
  void change_head(Change&& change) noexcept;

  Trail* trail_ = nullptr;
  std::uint64_t last_order_ = 0;
  std::size_t last_slot_ = 0;
  std::array<std::uint32_t, kRecords>
      running_{};  // the call's number + 1; 0: none runs in this slot
};

}  // namespace sparcl::flight
