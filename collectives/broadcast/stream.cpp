#include "collectives/broadcast/stream.hpp"

#include <exception>

#include "src/base/caught_error.hpp"
#include "src/base/stage_range.hpp"
#include "src/codec/staging_sink.hpp"

namespace sparcl::collectives::broadcast {
namespace {

// The bytes that the root encodes before the ranks have agreed: limits its memory. Heuristic.
constexpr std::uint64_t kAheadBytes = std::uint64_t{64} << 20;

// A source's or target's exception is its verdict. It is voted on like any other, so that the peers
// do not wait for this rank.
template <class Work>
Status caught(Work&& work) {
  try {
    return work();
  } catch (const std::exception&) {
    return caught_error("an update could not be coded or checked");
  }
}

}  // namespace

Status Stream::produce(StreamSource& source) {
  const StageRange range("encode");
  codec::StagingSink sink(staging_, written_);
  const double begin = engine_.transport().now();
  Status status = caught([&] { return source.produce(sink); });
  written_ = sink.written_bytes();
  traffic_.produce_seconds += engine_.transport().now() - begin;
  traffic_.stream_bytes = written_;
  return status;
}

bool Stream::wants_more_ahead(const StreamSource& source) const {
  return !source.finished() && written_ < kAheadBytes;
}

Status Stream::check(StreamTarget& target, bool& more) const {
  return caught([&] { return target.check(staging_, written_, more); });
}

Status Stream::finish(StreamTarget& target) const {
  return caught([&] { return target.finish(written_); });
}

}  // namespace sparcl::collectives::broadcast
