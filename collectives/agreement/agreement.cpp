#include "collectives/agreement/agreement.hpp"

#include <fmt/format.h>

#include <optional>

#include "collectives/agreement/ballot.hpp"

namespace sparcl::collectives {

Task agree(Engine& engine, Channel channel, CallFingerprint fingerprint, Status mine, Status& verdict, Subject subject, int first) {
  const int rank = engine.transport().rank();
  const int size = engine.transport().size();
  Ballot ballot = cast((rank - first + size) % size, fingerprint, mine, subject);
  for (int distance = 1; distance < size; distance *= 2) {
    const int to = (rank + distance) % size;
    const int from = (rank - distance + size) % size;
    Buffer outgoing = Buffer::allocate(kBallotBytes);
    write_ballot(ballot, outgoing.data());
    const OperationRef sent = engine.send(to, channel, outgoing);
    const OperationRef heard = engine.receive(from, channel, Buffer::allocate(kBallotBytes));
    if (Status status = co_await engine.wait(heard, "agreement on the call"); !status.ok()) co_return status;

    std::optional<Ballot> theirs;
    if (heard->bytes == kBallotBytes) theirs = read_ballot(heard->buffer.bytes(), size);
    if (!theirs) {
      engine.fail(Status(Code::kSystemError, fmt::format("a control message of rank {} failed its check", from)), from);
      co_return engine.health();
    }
    merge(ballot, *theirs);
    if (Status status = co_await engine.wait(sent, "agreement on the call"); !status.ok()) co_return status;
  }
  count_from(ballot, first, size);
  verdict = verdict_of(ballot, rank, mine, subject);
  co_return Status();
}

}  // namespace sparcl::collectives
