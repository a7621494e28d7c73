#include "src/base/flight/comm_trail.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/flight/flight_recorder.hpp"
#include "src/base/process_info.hpp"

namespace sparcl::flight {
namespace {

constexpr const char* kInit = "CommInit";

TrailHead describe(const CommNote& comm) {
  TrailHead head;
  head.comm = comm.id;
  head.changed_ns = monotonic_ns();
  head.rank = comm.rank;
  head.size = comm.size;
  head.state = TrailState::kLive;
  put(head.transport, comm.transport);
  return head;
}

}  // namespace

CommTrail::CommTrail(const CommNote& comm) : CommTrail(take_trail(describe(comm)), comm) {}

CommTrail::CommTrail(Trail* trail, const CommNote& comm) : trail_(trail) {
  if (trail_ == nullptr) return;
  trail_->head.store(describe(comm));
  event(kInit, Code::kSuccess);
}

CommTrail CommTrail::meeting(const CommNote& comm, std::string_view where) {
  TrailHead head = describe(comm);
  head.state = TrailState::kMeeting;
  CommTrail made;
  made.trail_ = take_trail(head);
  if (made.trail_ == nullptr) return made;
  made.trail_->head.store(head);
  Record record;
  record.begin_ns = head.changed_ns;
  record.state = RecordState::kRunning;
  put(record.operation, kInit);
  put(record.detail, where);
  made.add(record);
  return made;
}

void CommTrail::end_meeting(Code result) noexcept {
  Record record = trail_->records[last_slot_].held();
  record.end_ns = monotonic_ns();
  record.state = result == Code::kSuccess ? RecordState::kDone : RecordState::kFailed;
  record.result = static_cast<std::int32_t>(result);
  trail_->records[last_slot_].store(record);
}

void CommTrail::meets(std::string_view who_is_here) noexcept {
  change_head([&](TrailHead& head) { put(head.note, who_is_here); });
}

void CommTrail::met(const CommNote& comm) noexcept {
  if (trail_ == nullptr) return;
  end_meeting(Code::kSuccess);
  trail_->head.store(describe(comm));
}

void CommTrail::not_met(Code why) noexcept {
  if (trail_ != nullptr) end_meeting(why);
}

CommTrail::CommTrail(CommTrail&& other) noexcept
    : trail_(std::exchange(other.trail_, nullptr)),
      last_order_(other.last_order_),
      last_slot_(other.last_slot_),
      running_(other.running_) {}

CommTrail& CommTrail::operator=(CommTrail&& other) noexcept {
  if (this == &other) return *this;
  close();
  trail_ = std::exchange(other.trail_, nullptr);
  last_order_ = other.last_order_;
  last_slot_ = other.last_slot_;
  running_ = other.running_;
  return *this;
}

CommTrail::~CommTrail() { close(); }

void CommTrail::close() noexcept {
  if (trail_ == nullptr) return;
  if (trail_->head.held().state != TrailState::kMeeting) event("CommDestroy", Code::kSuccess);
  change_head([](TrailHead& head) {
    head.state = TrailState::kDestroyed;
    head.changed_ns = monotonic_ns();
  });
  trail_ = nullptr;
}

void CommTrail::begin(std::uint32_t call, const CallNote& note) noexcept {
  if (trail_ == nullptr) return;
  Record record;
  record.begin_ns = monotonic_ns();
  record.call = call;
  record.state = RecordState::kRunning;
  record.count = note.count;
  record.version = note.version;
  record.root = note.root;
  record.datatype = note.datatype;
  put(record.operation, note.operation);
  put(record.detail, note.detail);
  add(record);
  running_[last_slot_] = call + 1;
}

void CommTrail::end(std::uint32_t call, Code result, std::uint64_t bytes_sent,
                    std::uint64_t bytes_received) noexcept {
  change_call(call, [&](Record& record) {
    record.end_ns = monotonic_ns();
    record.state = result == Code::kSuccess ? RecordState::kDone : RecordState::kFailed;
    record.result = static_cast<std::int32_t>(result);
    record.bytes_sent = bytes_sent;
    record.bytes_received = bytes_received;
    if (result == Code::kSuccess)
      record.wait_since_ns = 0;  // of a failed call it may show the reason
  });
}

void CommTrail::event(const char* operation, Code result, std::string_view detail) noexcept {
  if (trail_ == nullptr) return;
  Record record;
  record.begin_ns = record.end_ns = monotonic_ns();
  record.state = result == Code::kSuccess ? RecordState::kDone : RecordState::kFailed;
  record.result = static_cast<std::int32_t>(result);
  put(record.operation, operation);
  put(record.detail, detail);
  add(record);
}

void CommTrail::waits(std::uint32_t call, const WaitNote& note) noexcept {
  change_call(call, [&](Record& record) {
    const std::uint64_t now = monotonic_ns();
    const auto lasted = static_cast<std::uint64_t>(std::clamp(note.seconds, 0.0, 1e9) * 1e9);
    record.wait_since_ns = std::max(record.begin_ns, now - std::min(now, lasted));
    record.wait_peer = note.peer;
    put(record.wait_host, note.host);
    put(record.wait_purpose, note.purpose);
  });
}

void CommTrail::waits_no_more(std::uint32_t call) noexcept {
  change_call(call, [](Record& record) { record.wait_since_ns = 0; });
}

void CommTrail::turned() noexcept {
  change_head([](TrailHead& head) { head.turned_ns = monotonic_ns(); });
}

void CommTrail::poisoned(const Status& error) noexcept {
  if (trail_ != nullptr) keep_record();
  change_head([&](TrailHead& head) {
    if (head.state == TrailState::kPoisoned) return;
    head.state = TrailState::kPoisoned;
    head.changed_ns = monotonic_ns();
    head.error = static_cast<std::int32_t>(error.code());
    put(head.note, error.message());
  });
}

// A call that still runs explains a hang: later calls do not overwrite it, as long as there is
// room.
std::size_t CommTrail::next_slot() noexcept {
  std::size_t slot = last_slot_;
  for (std::size_t tried = 0; tried < kRecords; ++tried) {
    slot = slot + 1 < kRecords ? slot + 1 : 0;
    if (running_[slot] == 0) return slot;
  }
  return slot + 1 < kRecords ? slot + 1 : 0;
}

void CommTrail::add(const Record& record) noexcept {
  Record numbered = record;
  numbered.order = ++last_order_;
  last_slot_ = next_slot();
  running_[last_slot_] = 0;
  trail_->records[last_slot_].store(numbered);
}

// Does nothing if the call is no longer, or not yet, in the record.
template <class Change>
void CommTrail::change_call(std::uint32_t call, Change&& change) noexcept {
  if (trail_ == nullptr) return;
  std::size_t slot = last_slot_;  // usually it is this one
  for (std::size_t tried = 0; running_[slot] != call + 1; ++tried) {
    if (tried == kRecords) return;
    slot = slot > 0 ? slot - 1 : kRecords - 1;
  }
  Record record = trail_->records[slot].held();
  change(record);
  if (record.state != RecordState::kRunning) running_[slot] = 0;
  trail_->records[slot].store(record);
}

template <class Change>
void CommTrail::change_head(Change&& change) noexcept {
  if (trail_ == nullptr) return;
  TrailHead head = trail_->head.held();
  change(head);
  trail_->head.store(head);
}

}  // namespace sparcl::flight
