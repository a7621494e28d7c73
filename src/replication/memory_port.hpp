#pragma once
// Where replicas of the same machine get updates without a connection's copies: pieces of sealed memory, each made once for all of
// them. Who comes is known by a token, which the server's welcome tells; nobody else is served.

#include <poll.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "src/replication/message.hpp"
#include "src/replication/update_store.hpp"
#include "src/transport/sealed_memory.hpp"
#include "src/transport/socket.hpp"

namespace sparcl::replication {

class MemoryPort {
 public:
  // Where that fails (log_debug says why), or is not done, nobody is invited.
  void open();
  bool is_open() const { return listener_.is_open(); }
  const std::string& name() const { return name_; }  // of its socket
  MemoryInvitation invite(std::uint64_t session);
  void forget(std::uint64_t session);

  // For poll(), in this order; then step().
  void add_entries(std::vector<pollfd>& entries) const;
  using Joined = std::function<void(std::uint64_t session, Socket socket)>;
  void step(double now, const Joined& joined);

  // Bytes of an update, which are all there and lie in one segment of its staging. The pointer is good until the next call.
  Result<const SealedMemory*> piece(const UpdateRef& update, std::uint64_t first_byte, std::size_t count, double now);

 private:
  struct Guest {
    MemoryToken token;
    std::uint64_t session = 0;
  };
  struct Stranger {
    Socket socket;
    double since = 0;
  };
  struct Piece {
    UpdateRef update;
    std::uint64_t first_byte = 0;
    SealedMemory memory;
    double used_at = 0;
  };

  // False: it has said its token, or has no business here.
  bool listen_to(Stranger& stranger, double now, const Joined& joined);

  Socket listener_;
  std::string name_;
  std::vector<Guest> guests_;  // who has not come yet
  std::vector<Stranger> strangers_;
  std::deque<Piece> pieces_;  // the last ones: others will fetch them soon
};

}  // namespace sparcl::replication
