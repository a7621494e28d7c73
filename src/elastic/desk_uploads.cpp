// Contributions of workers, whose bytes come while there is memory for them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "src/elastic/contribution_desk.hpp"

namespace sparcl::elastic {
namespace {

constexpr double kPassShare = 0.25;  // of deadline_s: so long smaller offers pass; heuristic

}  // namespace

using replication::MessageType;

Status ContributionDesk::take_offer(WorkerPeer& peer) {
  SPARCL_ASSIGN_OR_RETURN(const Offered offered, parse_offered(peer.content()));
  const std::uint64_t most = max_contribution_bytes(options_.run, options_.count);
  if (offered.bytes == 0 || offered.bytes > most)
    return corrupt(fmt::format("a contribution of {} bytes, where at most {} can be of use",
                               offered.bytes, most));
  if (peer.incoming) return corrupt("a contribution is offered while another one comes");
  SPARCL_RETURN_IF_ERROR(check_offer(*peer.worker, offered));
  if (const std::optional<FateTold> known = find({*peer.worker, offered.round})) {
    peer.send(MessageType::kFate, *known);
    return {};
  }
  Member* const member = member_of(peer, *peer.worker);
  if (member != nullptr && !std::exchange(member->is_awaited, true))
    SPARCL_RETURN_IF_ERROR(join(*member));
  peer.incoming.emplace().offered = offered;  // serve_waiting() asks for the bytes
  peer.incoming->offered_at = clock_.now();
  return {};
}

// While there is room. One contribution has room always.
bool ContributionDesk::ask_for_bytes(WorkerPeer& peer) {
  const std::uint64_t bytes = peer.incoming->offered.bytes;
  if (held_bytes_ > 0 && held_bytes_ + bytes > options_.held_bytes) return false;
  held_bytes_ += bytes;
  peer.begin_incoming(clock_.now());
  peer.send(MessageType::kWanted, Wanted{peer.incoming->offered.round});
  return true;
}

Status ContributionDesk::take_bytes(WorkerPeer& peer, double now) {
  if (!peer.incoming) return corrupt("bytes of a contribution came that was not offered");
  const Offered offered = peer.incoming->offered;
  Result<Buffer> part = take_part(peer, now);
  if (!part.ok()) return part.status();
  if (part->size() == 0) return {};
  const std::vector<float> values =
      values_of(kernels_, options_.run, part->bytes(), value_type(offered));
  take({*peer.worker, offered, aggregate::facts_of(values), values.size(), std::move(*part),
        kNoBranch});
  return {};
}

// The part once all of its bytes are here, before that an empty buffer.
Result<Buffer> ContributionDesk::take_part(WorkerPeer& peer, double now) {
  SPARCL_RETURN_IF_ERROR(peer.take_chunk(now));
  if (!peer.incoming->is_whole()) return Buffer();
  const Incoming coming = std::move(*peer.incoming);
  peer.incoming.reset();
  if (!peer.is_branch()) held_bytes_ -= coming.offered.bytes;
  SPARCL_ASSIGN_OR_RETURN(const Buffer bytes, coming.whole());
  return unpack_checked(buffers_, kernels_, options_.run, options_.count, coming.offered, bytes);
}

// In the order of their offers. Where there is no room for one, smaller ones pass for some time.
void ContributionDesk::serve_waiting(double now) {
  std::vector<WorkerPeer*> waiting;
  WorkerPeer* slowest = nullptr;
  for (const auto& peer : peers_) {
    if (peer->is_branch() || peer->is_over() || !peer->incoming) continue;
    if (!peer->incoming->is_wanted)
      waiting.push_back(peer.get());
    else if (slowest == nullptr || peer->incoming->wanted_at < slowest->incoming->wanted_at)
      slowest = peer.get();
  }
  std::ranges::sort(waiting, {}, [](const WorkerPeer* peer) { return peer->incoming->offered_at; });
  const WorkerPeer* first = nullptr;  // without room
  for (WorkerPeer* const peer : waiting) {
    if (ask_for_bytes(*peer) || first != nullptr) continue;
    first = peer;
    if (now - peer->incoming->offered_at > kPassShare * options_.round.deadline_s) break;
  }
  if (first != nullptr) free_memory(slowest, *first, now);
}

// The memory that a slow upload holds back is for another worker that has waited long. One upload
// ends, and then the others have time to become whole.
void ContributionDesk::free_memory(WorkerPeer* slowest, const WorkerPeer& waiting, double now) {
  const double deadline_s = options_.round.deadline_s;
  if (slowest == nullptr || now - slowest->incoming->wanted_at <= deadline_s ||
      now - std::max(waiting.incoming->offered_at, freed_at_) <= options_.silence_s)
    return;
  freed_at_ = now;
  const Status why(
      Code::kTimeout,
      fmt::format("its contribution has not come whole within deadline_s, {:g} s, and others "
                  "wait: give a larger deadline_s to the aggregator, or contribute less at once",
                  deadline_s));
  note_refusal(slowest->who(), why);
  slowest->refuse(why);
}

}  // namespace sparcl::elastic
