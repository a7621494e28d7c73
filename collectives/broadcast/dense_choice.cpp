#include "collectives/broadcast/dense_choice.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl::collectives::broadcast {
namespace {

// Smaller arrays are coded as fast as they are sent. Heuristic.
constexpr std::uint64_t kMinDenseBytes = std::uint64_t{64} << 10;

constexpr std::size_t kLineBytes = 64;
constexpr std::uint64_t kSampledLines = 256;

struct Sample {
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  std::uint64_t lines = 0;
  std::uint64_t changed_lines = 0;
};

// The elements of a piece of at most a line that differ.
template <class Word>
std::uint64_t changed_in(const std::byte* base, const std::byte* held, std::size_t bytes) {
  Word old_values[kLineBytes / sizeof(Word)], new_values[kLineBytes / sizeof(Word)];
  std::memcpy(old_values, base, bytes);
  std::memcpy(new_values, held, bytes);
  std::uint64_t changed = 0;
  for (std::size_t i = 0; i < bytes / sizeof(Word); ++i)
    changed += old_values[i] != new_values[i] ? 1 : 0;
  return changed;
}

std::uint64_t changed_in(std::size_t width, const std::byte* base, const std::byte* held,
                         std::size_t bytes) {
  switch (width) {
    case 1:
      return changed_in<std::uint8_t>(base, held, bytes);
    case 2:
      return changed_in<std::uint16_t>(base, held, bytes);
    case 4:
      return changed_in<std::uint32_t>(base, held, bytes);
    default:
      return changed_in<std::uint64_t>(base, held, bytes);
  }
}

// One line in each of kSampledLines stretches of the call's bytes, at a place that no row of a
// matrix repeats.
Sample sample(const UpdateCall& call) {
  Sample found;
  const std::uint64_t stretch =
      std::max(call.map->byte_count() / kSampledLines, std::uint64_t{kLineBytes});
  std::uint64_t number = 0, begin = 0;  // begin: of the next stretch, after that of the next array
  for (std::size_t i = 0; i < call.held.size(); ++i) {
    const codec::ArraySpec& array = call.map->arrays()[i];
    const std::size_t width = element_bytes(array.datatype);
    for (; begin < array.bytes(); begin += stretch) {
      const std::uint64_t place =
          std::min(begin + kernels::hash_key(number++) % stretch, array.bytes() - 1);
      const std::uint64_t at = place / kLineBytes * kLineBytes;
      const std::size_t bytes = std::min<std::uint64_t>(kLineBytes, array.bytes() - at);
      const std::uint64_t changed =
          changed_in(width, call.sender.base[i] + at, call.held[i] + at, bytes);
      found.elements += bytes / width;
      found.changed += changed;
      ++found.lines;
      found.changed_lines += changed > 0 ? 1 : 0;
    }
    begin -= array.bytes();
  }
  return found;
}

// Also an empty hint is one: nothing of that array is sent.
bool has_hints(std::span<const codec::ChangedHint* const> hints) {
  return std::ranges::any_of(hints, [](const codec::ChangedHint* hint) { return hint != nullptr; });
}

// All changes are sent exactly, and nothing is asked of the old values.
bool may_be_dense(const UpdateCall& call, const CommContext& comm) {
  const UpdateSender& sender = call.sender;
  return call.device == nullptr && sender.rule == nullptr && !sender.values.is_lossy() &&
         !has_hints(sender.hints) && comm.verify != codec::Verify::kFull &&
         comm.engine->transport().size() > 1 && call.map->byte_count() > 0;
}

bool lacks_base(const UpdateCall& call) {
  for (std::size_t i = 0; i < call.sender.base.size(); ++i) {
    if (call.sender.base[i] == nullptr && call.map->arrays()[i].count > 0) return true;
  }
  return false;
}

// The share of elements from which on all are sent sooner than the changes are found, coded,
// checked and written. On one machine by bench_density (bf16, 2 and 4 ranks on two cores).
// Otherwise heuristic, and only where the link is faster than the coder.
constexpr double kNearShare = 0.03;
constexpr double kFarShare = 0.25;
constexpr std::uint32_t kFastLinkPs = 320;  // for a byte: 25 Gbit/s
// Changes that lie together: the sparse stream sends few blocks, and reads the rest.
constexpr std::uint64_t kLeastLinesPercent = 30;

}  // namespace

bool sends_dense(const UpdateCall& call, const CommContext& comm) {
  if (!may_be_dense(call, comm)) return false;
  if (comm.broadcast_algorithm == kDenseName) return true;
  const bool is_auto =
      comm.broadcast_algorithm == "auto" || comm.broadcast_algorithm == kNcclFanoutName;
  if (!is_auto || call.map->byte_count() < kMinDenseBytes) return false;
  if (lacks_base(call)) return true;
  const codec::LinkTime link = comm::link_time(comm.engine->transport(), comm.link_gbit);
  if (!link.one_machine && link.ps_per_byte > kFastLinkPs) return false;
  const Sample found = sample(call);
  if (100 * found.changed_lines < kLeastLinesPercent * found.lines) return false;
  const double least = link.one_machine ? kNearShare : kFarShare;
  return static_cast<double>(found.changed) >= least * static_cast<double>(found.elements);
}

}  // namespace sparcl::collectives::broadcast
