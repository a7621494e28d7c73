#include "src/replication/memory_pieces.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kKeptPieces = 16;  // of an update; heuristic: 64 MiB
constexpr double kKeptSeconds = 0.5;     // after the last replica fetched one
constexpr std::uint64_t kMaxCopies =
    2;  // of an update: what was made stays in memory while any replica holds it

struct ChargedMemory {
  ChargedMemory(net::SealedMemory sealed, PeerBudget::Charge counted)
      : memory(std::move(sealed)), charge(std::move(counted)) {}
  net::SealedMemory memory;
  PeerBudget::Charge charge;
};

}  // namespace

void MemoryPieces::open() {
  MemoryInvitation invitation;
  Status status = trust::fill_random(invitation.token);
  if (status.ok()) {
    Result<net::SealedMemory> proof = net::SealedMemory::copy_of(invitation.token);
    status = proof.status();
    if (proof.ok()) proof_ = std::make_shared<const net::SealedMemory>(std::move(*proof));
  }
  if (!status.ok()) return log_debug("replication: no memory is shared: {}", status.message());
  invitation.pid = ::getpid();
  invitation.descriptor = proof_->descriptor();
  invitation_ = invitation;
}

Result<SealedMemoryRef> MemoryPieces::piece(const UpdateRef& update, std::uint64_t first_byte,
                                            std::size_t count, double now) {
  auto made = std::find_if(made_.begin(), made_.end(),
                           [&](const Made& each) { return each.update.lock() == update; });
  if (made == made_.end()) made = made_.insert(made_.end(), Made{update, 0, {}});
  const auto found = std::find_if(made->pieces.begin(), made->pieces.end(), [&](const Piece& each) {
    return each.first_byte == first_byte && each.memory->size() == count;
  });
  if (found != made->pieces.end()) {
    found->used_at = now;
    return found->memory;
  }
  if (made->bytes + count > kMaxCopies * update->commit.stream_bytes)
    return Status(Code::kSystemError, fmt::format("version {} was copied {} times",
                                                  update->commit.version, kMaxCopies));
  if (!budget_->has_room(count))
    return Status(Code::kSystemError,
                  "the memory that peers may take is used up (SPARCL_PEER_BYTES)");
  SPARCL_ASSIGN_OR_RETURN(
      net::SealedMemory memory,
      net::SealedMemory::copy_of(update->bytes.slice(first_byte, count).bytes()));
  if (made->pieces.size() >= kKeptPieces) made->pieces.pop_front();
  made->bytes += count;
  const auto charged =
      std::make_shared<const ChargedMemory>(std::move(memory), PeerBudget::Charge(budget_, count));
  made->pieces.push_back({first_byte, SealedMemoryRef(charged, &charged->memory), now});
  return made->pieces.back().memory;
}

void MemoryPieces::forget_old(double now) {
  for (Made& each : made_)
    std::erase_if(each.pieces,
                  [&](const Piece& piece) { return now - piece.used_at > kKeptSeconds; });
  std::erase_if(made_, [&](const Made& each) { return each.update.expired(); });
}

}  // namespace sparcl::replication
