#pragma once
// How ranks without MPI meet: an all-gather of one small blob a rank, before any transport exists.
// docs/reference/bootstrap.md.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/bootstrap/bootstrap_messages.hpp"
#include "src/net/bootstrap/root_search.hpp"
#include "src/net/bootstrap/unique_id.hpp"

namespace sparcl::net {

struct GatherOptions {
  SearchOptions search;
  double silence_s =
      15;  // without a note for so long the root is stopped or cut off; it sends one each second
  double grace_s = 2;  // after timeout_s, for the root to name the missing ranks
  // Called each second while this rank waits, with the numbers of present and missing ranks.
  std::function<void(const Note&)> on_note{};
};

// Called by every rank once; blocks. On success each rank has all blobs, by rank. Every rank gets
// an error in time:
// - InvalidArgument: nranks, rank, or a blob beyond kMaxBlobBytes (before anything is sent).
// - RemoteError: the process that made the id has ended, stopped, or cannot be reached. Or another
//   rank ended while it waited.
// - Mismatch: ranks gave different nranks.
// - InvalidUsage: two ranks gave the same number, or the id has served before.
// - Timeout: "ranks 2, 5-7 of 8 did not come".
// - SystemError: descriptors, memory.
Result<BlobTable> all_gather(const UniqueId& id, int nranks, int rank,
                             std::span<const std::byte> own, double timeout_s,
                             const GatherOptions& options = {});

// Called instead of all_gather by a rank that cannot take part. The other ranks get RemoteError
// with the rank and its reason at once, if the root can be reached within `seconds`.
void decline(const UniqueId& id, int rank, const Status& why, double seconds);

}  // namespace sparcl::net
