#include "src/comm/agreement/agreement.hpp"

#include <fmt/format.h>

#include <optional>

#include "src/base/stage_range.hpp"
#include "src/comm/agreement/ballot.hpp"

namespace sparcl::comm {
namespace {

// Adds where the ranks of a verdict are, and what to do about it.
Status with_advice(const Status& verdict, const Ballot& ballot, int own_rank,
                   const transport::Transport& transport) {
  const auto at = [&](int rank) {
    return fmt::format("rank {}: {}", rank, transport.describe_peer(rank));
  };
  if (ballot.refusing_rank == own_rank) return verdict;
  const std::string more =
      ballot.refusing_rank != kNobody
          ? at(ballot.refusing_rank)
          : fmt::format(
                "{}; {}; make the same call, with the same arguments and settings, on every rank",
                at(ballot.lower_rank), at(ballot.upper_rank));
  return Status(verdict.code(), fmt::format("{} ({})", verdict.message(), more), verdict.scope());
}

}  // namespace

Task agree(Engine& engine, transport::Channel channel, CallFingerprint fingerprint, Status mine,
           Status& verdict, Subject subject, int first, Extents* extents) {
  const StageRange range("agree");
  const int rank = engine.transport().rank();
  const int size = engine.transport().size();
  Ballot ballot = cast((rank - first + size) % size, fingerprint, mine, subject);
  if (extents != nullptr) {
    ballot.extents = *extents;
    ballot.extents.min_capacity_rank = (rank - first + size) % size;
  }
  for (int distance = 1; distance < size; distance *= 2) {
    const int to = (rank + distance) % size;
    const int from = (rank - distance + size) % size;
    Buffer outgoing = Buffer::allocate(kBallotBytes);
    write_ballot(ballot, outgoing.data());
    const transport::OperationRef sent = engine.send(to, channel, outgoing);
    const transport::OperationRef heard =
        engine.receive(from, channel, Buffer::allocate(kBallotBytes));
    SPARCL_CO_RETURN_IF_ERROR(co_await engine.wait(heard, "agreement on the call"));

    std::optional<Ballot> theirs;
    if (heard->bytes == kBallotBytes) theirs = read_ballot(heard->buffer.bytes(), size);
    if (!theirs) {
      engine.fail(Status(Code::kSystemError,
                         fmt::format("a control message of rank {} failed its check", from)),
                  from);
      co_return engine.health();
    }
    merge(ballot, *theirs);
    SPARCL_CO_RETURN_IF_ERROR(co_await engine.wait(sent, "agreement on the call"));
  }
  count_from(ballot, first, size);
  if (extents != nullptr) *extents = ballot.extents;
  verdict = verdict_of(ballot, rank, mine, subject, engine.collectives());
  if (!verdict.ok()) verdict = with_advice(verdict, ballot, rank, engine.transport());
  co_return Status();
}

}  // namespace sparcl::comm
