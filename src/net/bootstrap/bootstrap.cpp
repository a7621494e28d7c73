#include "src/net/bootstrap/bootstrap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "src/net/network_interfaces.hpp"

namespace sparcl::net {
namespace {

constexpr double kLongestSeconds = 1e9;
constexpr double kLookSeconds = 0.5;
constexpr double kDroppedSeconds = 0.1;  // until a rank that was dropped comes again
constexpr double kRefusedSeconds = 0.5;

Status check(int nranks, int rank, std::span<const std::byte> own, double timeout_s) {
  if (nranks < 1 || nranks > kMaxRanks) {
    return Status(Code::kInvalidArgument,
                  fmt::format("nranks is {}: expected 1 to {}", nranks, kMaxRanks));
  }
  if (rank < 0 || rank >= nranks) {
    return Status(Code::kInvalidArgument,
                  fmt::format("rank is {}: expected 0 to {}", rank, nranks - 1));
  }
  if (own.size() > kMaxBlobBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} bytes to exchange: at most {} fit", own.size(), kMaxBlobBytes));
  }
  if (!(timeout_s > 0))
    return Status(Code::kInvalidArgument,
                  fmt::format("a time-out of {} s: expected a positive number", timeout_s));
  return {};
}

// One rank's wait for the table.
class Waiter {
 public:
  Waiter(FoundRoot root, int nranks, double deadline, const GatherOptions& options)
      : root_(std::move(root)), nranks_(nranks), deadline_(deadline), options_(options) {}

  Status join(const Join& own) {
    SPARCL_ASSIGN_OR_RETURN(const RecordLine::Payload payload,
                            RecordLine::make_payload(RecordKind::kJoin, encode_join(own)));
    return root_.line.queue(payload);
  }

  // The root has closed the connection without a message. It may have dropped this rank as one of
  // too many unauthenticated connections, before it read the join.
  bool was_dropped() const { return was_dropped_; }

  Result<BlobTable> wait() {
    while (true) {
      ByteLine& line = root_.line.line();
      if (line.write() == ByteLine::Progress::kClosed) return ended();
      switch (root_.line.receive()) {
        case RecordLine::Progress::kClosed:
          return ended();
        case RecordLine::Progress::kForged:
          return Status(Code::kCorrupt, fmt::format("bytes from {} are damaged", where()));
        case RecordLine::Progress::kMore:
          SPARCL_RETURN_IF_ERROR(sleep(line));
          continue;
        case RecordLine::Progress::kRecord:
          break;
      }
      was_heard_ = true;
      if (root_.line.kind() == RecordKind::kTable)
        return decode_table(root_.line.payload(), nranks_);
      if (root_.line.kind() == RecordKind::kFailure) return decode_failure(root_.line.payload());
      const Result<Note> note = decode_note(root_.line.payload());
      if (note.ok()) take(*note);
    }
  }

 private:
  void take(const Note& note) {
    note_ = note;
    if (options_.on_note) options_.on_note(note_);
  }

  std::string where() const {
    return fmt::format("the process that made the unique id, at {}", to_text(root_.address));
  }

  Status ended() {
    was_dropped_ = !was_heard_;
    return Status(Code::kRemoteError, fmt::format("{}, ended before all ranks had come: {}",
                                                  where(), root_.line.line().why_closed()));
  }

  Status sleep(const ByteLine& line) {
    const short events = static_cast<short>(POLLIN | (line.has_queued() ? POLLOUT : 0));
    pollfd entry{line.socket().fd(), events, 0};
    // Silence is counted while this process runs: a rank that was stopped for long must not blame
    // the root.
    const double begin = monotonic_seconds();
    const bool heard = poll_until({&entry, 1}, std::min(begin + kLookSeconds, deadline_)) > 0;
    silent_s_ = heard ? 0 : silent_s_ + std::min(monotonic_seconds() - begin, kLookSeconds);
    if (heard) return {};
    if (monotonic_seconds() >= deadline_) {
      return Status(Code::kTimeout, fmt::format("the time was over while ranks met at {}: {}",
                                                where(), note_.text()));
    }
    if (silent_s_ < options_.silence_s) return {};
    return Status(Code::kRemoteError,
                  fmt::format("{}, has been silent for {:.3g} s: it is stopped, or cut off",
                              where(), options_.silence_s));
  }

  FoundRoot root_;
  int nranks_;
  double deadline_;
  GatherOptions options_;
  double silent_s_ = 0;
  bool was_heard_ = false;
  bool was_dropped_ = false;
  Note note_{0, static_cast<std::uint32_t>(nranks_), {}};
};

}  // namespace

Result<BlobTable> all_gather(const UniqueId& id, int nranks, int rank,
                             std::span<const std::byte> own, double timeout_s,
                             const GatherOptions& options) {
  SPARCL_RETURN_IF_ERROR(check(nranks, rank, own, timeout_s));
  const double until = monotonic_seconds() + std::min(timeout_s, kLongestSeconds);
  Join join;
  join.rank = rank;
  join.nranks = nranks;
  join.pid = static_cast<std::uint32_t>(getpid());
  join.host = own_host_name();
  join.blob.assign(own.begin(), own.end());
  SearchOptions search = options.search;
  Result<BlobTable> table = Status();
  for (bool again = true; again;) {
    Result<FoundRoot> root = find_root(id, nranks, until, search);
    if (!root.ok()) return table.status().ok() ? root.status() : table.status();
    join.patience_ms = static_cast<std::uint64_t>(std::max(0.0, until - monotonic_seconds()) * 1e3);
    Waiter waiter(std::move(*root), nranks, until + options.grace_s, options);
    SPARCL_RETURN_IF_ERROR(waiter.join(join));
    table = waiter.wait();
    again = waiter.was_dropped() && monotonic_seconds() < until;
    if (again) std::this_thread::sleep_for(std::chrono::duration<double>(kDroppedSeconds));
    search.refused_s = std::min(search.refused_s, kRefusedSeconds);  // it was there just now
  }
  if (table.ok() && !std::ranges::equal((*table)[static_cast<std::size_t>(rank)], own)) {
    return Status(Code::kInternalError, "the ranks' table holds other bytes than this rank gave");
  }
  return table;
}

void decline(const UniqueId& id, int rank, const Status& why, double seconds) {
  const double until = monotonic_seconds() + seconds;
  Result<FoundRoot> root = find_root(id, 1, until, {.refused_s = 0});
  if (!root.ok()) return;
  Join own;
  own.rank = rank;
  own.pid = static_cast<std::uint32_t>(getpid());
  own.host = own_host_name();
  const Status told(Code::kRemoteError,
                    fmt::format("{} cannot take part: {}", own.who(), why.message()));
  const Result<RecordLine::Payload> payload =
      RecordLine::make_payload(RecordKind::kFailure, encode_failure(told));
  if (!payload.ok() || !root->line.queue(*payload).ok()) return;
  ByteLine& line = root->line.line();
  while (line.write() == ByteLine::Progress::kMore && line.has_queued() &&
         monotonic_seconds() < until) {
    pollfd entry{line.socket().fd(), POLLOUT, 0};
    poll_until({&entry, 1}, until);
  }
}

}  // namespace sparcl::net
