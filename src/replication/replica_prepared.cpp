// What a replica can show, and the updates that it wants before it shows any of them.

#include <algorithm>

#include "src/replication/replica_machine.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxStaged =
    3;  // a publisher sends no more than two before it hears that they are applied
// The same up to a version that is wanted, or pinned. A publisher stops earlier (kMaxAheadToPin).
constexpr std::size_t kMaxStagedToPin = kMaxUpdatesToPin + 2;
constexpr std::uint64_t kMaxStagedParts = 4;  // of the bytes that one update can have

}  // namespace

void ReplicaMachine::on_want(std::uint64_t version) {
  if (std::exchange(wanted_, version) == version || version == 0) return;
  const bool is_held_up = chain_length() >= kMaxUpdatesAhead && tip().version < version;
  if (is_held_up) leave_parent({});  // which knows of no such wish, and sends no more
}

// The version after which no update is wanted, for a peer.
std::uint64_t ReplicaMachine::tell_stop() {
  std::uint64_t stop = pin_.version;
  if (wanted_ != 0) stop = stop != 0 ? std::min(stop, wanted_) : wanted_;
  has_told_stop_ = has_told_stop_ || stop != 0;
  return stop;
}

bool ReplicaMachine::has_room(std::uint64_t stream_bytes) const {
  if (chain_length() < kMaxStaged) return true;
  std::uint64_t bytes = stream_bytes;
  for (const auto& each : staged_) bytes += each->commit().stream_bytes;
  return has_told_stop_ && chain_length() < kMaxStagedToPin &&
         bytes <= kMaxStagedParts * options_.max_stream_bytes;
}

bool ReplicaMachine::may_come_more() const {
  return chain_length() < kMaxUpdatesAhead || tip().version < wanted_;
}

std::vector<PreparedVersion> ReplicaMachine::ready() const {
  std::vector<PreparedVersion> versions;
  if (!may_apply()) return versions;
  for (const auto& each : staged_) {
    const Commit& commit = each->commit();
    if (pin_.version != 0 && commit.version > pin_.version) break;
    versions.push_back({commit.epoch, commit.version});
    if (commit.version == pin_.version) break;  // a later one may be a label of another publisher's
  }
  return versions;
}

bool ReplicaMachine::is_prepared_as_far_as_it_goes() const {
  const std::uint64_t last = pin_.version == 0 ? newest_ : std::min(newest_, pin_.version);
  return wants_back() || tip().version >= last || !may_come_more();
}

std::size_t ReplicaMachine::steps_to(std::uint64_t version) const {
  const std::vector<PreparedVersion> versions = ready();
  const auto found =
      std::find_if(versions.rbegin(), versions.rend(),
                   [&](const PreparedVersion& each) { return each.version == version; });
  return static_cast<std::size_t>(versions.rend() - found);
}

}  // namespace sparcl::replication
