#include "src/comm/start/small_gather.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl::comm {

Task small_gather(Engine& engine, transport::Channel channel, std::span<const std::byte> own,
                  std::vector<std::byte>& all) {
  const int rank = engine.transport().rank(), ranks = engine.transport().size();
  const std::size_t bytes = own.size();
  const Buffer held =
      Buffer::allocate(static_cast<std::size_t>(ranks) * bytes);  // of rank, rank + 1 ...
  std::memcpy(held.data(), own.data(), bytes);
  for (int count = 1; count < ranks; count *= 2) {
    const auto moved = static_cast<std::size_t>(std::min(count, ranks - count)) * bytes;
    const transport::OperationRef sent =
        engine.send((rank + ranks - count) % ranks, channel, held.slice(0, moved));
    const transport::OperationRef heard =
        engine.receive((rank + count) % ranks, channel,
                       held.slice(static_cast<std::size_t>(count) * bytes, moved));
    SPARCL_CO_RETURN_IF_ERROR(co_await engine.wait(heard, "what ranks say of themselves"));
    if (heard->bytes != moved) {
      engine.fail(Status(Code::kMismatch,
                         "ranks say of themselves what cannot be read: do all use the same version "
                         "of sparcl?"),
                  heard->peer);
      co_return engine.health();
    }
    SPARCL_CO_RETURN_IF_ERROR(co_await engine.wait(sent, "what ranks say of themselves"));
  }
  all.resize(static_cast<std::size_t>(ranks) * bytes);
  const auto wrapped = static_cast<std::size_t>(ranks - rank) * bytes;  // up to the last rank
  std::memcpy(all.data() + static_cast<std::size_t>(rank) * bytes, held.data(), wrapped);
  std::memcpy(all.data(), held.data() + wrapped, static_cast<std::size_t>(rank) * bytes);
  co_return Status();
}

}  // namespace sparcl::comm
