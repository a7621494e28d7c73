#include "src/base/flight/flight_dump.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "src/base/flight/flight_recorder.hpp"
#include "src/base/flight/flight_text.hpp"
#include "src/base/log.hpp"
#include "src/base/process_info.hpp"
#include "src/base/standard_streams.hpp"

namespace sparcl::flight {
namespace {

// One write a line, so that the lines of several ranks mix whole.
void write_line(int descriptor, const char* indent, const LineWriter& line) noexcept {
  std::array<char, 768> bytes;
  LineWriter start;
  start.text("sparcl flight [").number(std::int64_t{::getpid()}).text("]").text(indent);
  const std::string_view head = start.view(), rest = line.view();
  char* end = std::copy(head.begin(), head.end(), bytes.begin());
  end = std::copy_n(rest.begin(), std::min(rest.size(), bytes.size() - head.size() - 1), end);
  *end++ = '\n';
  (void)write_quietly(descriptor, {bytes.data(), static_cast<std::size_t>(end - bytes.data())},
                      0);  // a dump is not worth a wait
}

// Too large for the stack of a handler. Its user holds `in_use`.
RecordList shared_list;
std::atomic_flag in_use = ATOMIC_FLAG_INIT;

void dump_trail(int descriptor, const Trail& trail, std::uint64_t now_ns) noexcept {
  TrailHead head;
  bool whole = false;
  for (int look = 0; look < 100 && !whole; ++look) whole = trail.head.load(head);
  if (!whole || head.state == TrailState::kFree) return;
  LineWriter line;
  describe_trail(head, now_ns, line);
  write_line(descriptor, " ", line);
  shared_list.count = shared_list.torn = 0;
  collect(trail, shared_list);
  shared_list.show(kRecords, now_ns,
                   [descriptor](const LineWriter& each) { write_line(descriptor, "   ", each); });
}

}  // namespace

std::string where_to_look(const CommTrail& trail) {
  if (trail.trail() == nullptr || record_path().empty()) return {};
  return fmt::format(" (its last operations: `sparcl status {}` on {})", ::getpid(), host_name());
}

void log_trail(const CommTrail& trail) {
  if (trail.trail() == nullptr || !log_enabled(LogLevel::kInfo)) return;
  const auto list = std::make_unique<RecordList>();
  collect(*trail.trail(), *list);
  const TrailHead head = trail.trail()->head.held();
  log_info("comm {}: rank {} of {}: its last operations", head.comm, head.rank, head.size);
  list->show(kLoggedRecords, monotonic_ns(),
             [](const LineWriter& line) { log_info("  {}", line.view()); });
}

void dump(int descriptor, std::byte* image) noexcept {
  if (in_use.test_and_set(std::memory_order_acquire)) return;
  const std::uint64_t now = monotonic_ns();
  LineWriter line;
  if (image == nullptr) {
    line.text("no communicator has been made");
    write_line(descriptor, " ", line);
  } else {
    const FileHead& head = head_of(image);
    const std::uint64_t used = std::atomic_ref(head_of(image).trails_used).load();
    line.text("process ")
        .number(head.pid)
        .text(" (")
        .text(head.program)
        .text(") on host ")
        .text(head.host)
        .text(", sparcl ")
        .text(head.version);
    write_line(descriptor, " ", line);
    for (std::size_t i = 0; i < used && i < kTrails; ++i)
      dump_trail(descriptor, trail_of(image, i), now);
  }
  in_use.clear(std::memory_order_release);
}

void dump(int descriptor) noexcept { dump(descriptor, image()); }

}  // namespace sparcl::flight
