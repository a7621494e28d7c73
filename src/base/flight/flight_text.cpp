#include "src/base/flight/flight_text.hpp"

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::flight {
namespace {

// A record that is being written is complete again some nanoseconds later, unless its writer died
// or was stopped in between.
constexpr int kLooksAtARecord = 100;

std::uint64_t since(std::uint64_t then_ns, std::uint64_t now_ns) noexcept {
  return now_ns > then_ns ? now_ns - then_ns : 0;
}

void describe_call(const Record& record, LineWriter& line) noexcept {
  line.text(" ").text(record.operation);
  if (record.call == kNoCall) {
    if (record.detail[0] != '\0') line.text(" (").text(record.detail).text(")");
    return;
  }
  line.text(", ").number(record.count);
  if (record.datatype >= 0) {
    const DataTypeInfo* type = find_data_type(record.datatype);
    line.text(" ").text(type != nullptr ? type->name : "of an unknown type");
  }
  if (record.detail[0] != '\0') line.text(" ").text(record.detail);
  if (record.root >= 0) line.text(", root ").number(record.root);
  if (record.version != 0) line.text(", version ").number(record.version);
}

void describe_wait(const Record& record, std::uint64_t until_ns, LineWriter& line) noexcept {
  if (record.wait_since_ns == 0) return;
  line.text(record.state == RecordState::kRunning ? ", waits for rank " : ", waited for rank ")
      .number(record.wait_peer);
  if (record.wait_host[0] != '\0') line.text(" (").text(record.wait_host).text(")");
  line.text(" for ")
      .duration(since(record.wait_since_ns, until_ns))
      .text(": ")
      .text(record.wait_purpose);
}

void describe_outcome(const Record& record, bool is_last_of_several, std::uint64_t now_ns,
                      LineWriter& line) noexcept {
  if (record.state == RecordState::kRunning) {
    line.text(": RUNNING for ").duration(since(record.begin_ns, now_ns));
    return describe_wait(record, now_ns, line);
  }
  const bool failed = record.state == RecordState::kFailed;
  line.text(failed ? ": FAILED" : is_last_of_several ? ": done, the last" : ": done");
  if (failed) line.text(" (").text(code_name(static_cast<Code>(record.result))).text(")");
  if (record.call != kNoCall)
    line.text(failed ? " after " : " in ").duration(since(record.begin_ns, record.end_ns));
  line.text(", ").duration(since(record.end_ns, now_ns)).text(" ago");
  if (record.call != kNoCall)
    line.text(", sent ")
        .number(record.bytes_sent)
        .text(", received ")
        .number(record.bytes_received)
        .text(" bytes");
  describe_wait(record, record.end_ns, line);
}

}  // namespace

const char* trail_state_name(TrailState state) noexcept {
  switch (state) {
    case TrailState::kFree:
      return "free";
    case TrailState::kLive:
      return "live";
    case TrailState::kPoisoned:
      return "poisoned";
    case TrailState::kDestroyed:
      return "destroyed";
    case TrailState::kMeeting:
      return "meeting";
  }
  return "unknown";
}

const char* record_state_name(RecordState state) noexcept {
  switch (state) {
    case RecordState::kNone:
      return "none";
    case RecordState::kRunning:
      return "running";
    case RecordState::kDone:
      return "done";
    case RecordState::kFailed:
      return "failed";
  }
  return "unknown";
}

void describe_trail(const TrailHead& head, std::uint64_t now_ns, LineWriter& line) noexcept {
  line.text("comm ")
      .number(head.comm)
      .text(": rank ")
      .number(head.rank)
      .text(" of ")
      .number(head.size)
      .text(" over ")
      .text(head.transport);
  line.text(", ")
      .text(trail_state_name(head.state))
      .text(" for ")
      .duration(since(head.changed_ns, now_ns));
  if (head.turned_ns != 0)
    line.text(", looked for messages ").duration(since(head.turned_ns, now_ns)).text(" ago");
  if (head.state == TrailState::kMeeting && head.note[0] != '\0') line.text(": ").text(head.note);
  if (head.error != 0)
    line.text(": ").text(code_name(static_cast<Code>(head.error))).text(": ").text(head.note);
}

void describe_record(const Record& record, std::uint64_t now_ns, LineWriter& line) noexcept {
  describe_run(record, record, now_ns, line);
}

void describe_run(const Record& first, const Record& last, std::uint64_t now_ns,
                  LineWriter& line) noexcept {
  const bool is_call = first.call != kNoCall;
  if (is_call && first.call != last.call) {
    line.text("calls ").number(first.call).text(" to ").number(last.call);
  } else if (is_call) {
    line.text("call ").number(first.call);
  } else {
    line.text("event");
  }
  describe_call(last, line);
  describe_outcome(last, is_call && first.call != last.call, now_ns, line);
}

bool is_same_but_number(const Record& a, const Record& b) noexcept {
  const bool calls = a.call != kNoCall && b.call != kNoCall && b.call > a.call;
  return calls && a.state == RecordState::kDone && b.state == RecordState::kDone &&
         a.count == b.count && a.root == b.root && a.datatype == b.datatype &&
         a.operation == b.operation && a.detail == b.detail;
}

void RecordList::add(const Record& record) noexcept {
  if (record.state == RecordState::kNone || count == records.size()) return;
  std::size_t at = count++;
  for (; at > 0 && records[at - 1].order > record.order; --at) records[at] = records[at - 1];
  records[at] = record;
}

void collect(const Trail& trail, RecordList& list) noexcept {
  for (const Published<Record>& published : trail.records) {
    Record record;
    bool whole = false;
    for (int look = 0; look < kLooksAtARecord && !whole; ++look) whole = published.load(record);
    if (whole) {
      list.add(record);
    } else {
      ++list.torn;
    }
  }
}

}  // namespace sparcl::flight
