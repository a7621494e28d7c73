#pragma once
// Memory that processes of one machine and user share to read. Once it is sealed, no process can
// change or cut it, its maker included (memfd_create(2), fcntl(2): F_ADD_SEALS). Checked bytes
// therefore stay as they are.

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/buffer.hpp"
#include "src/base/status.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {

class SealedMemory {
 public:
  // A copy. SystemError: there is no memory, or no descriptor.
  static Result<SealedMemory> copy_of(std::span<const std::byte> bytes);
  // The memory behind descriptor `descriptor` of process `pid`, which must keep it open during the
  // call. Corrupt: it is no such memory, is not sealed, or has another size. SystemError: it cannot
  // be reached (another user's, another namespace).
  static Result<SealedMemory> of_process(std::int64_t pid, int descriptor, std::size_t bytes);

  int descriptor() const { return descriptor_.fd(); }
  std::size_t size() const { return bytes_; }
  // Read only: a write ends the process. The bytes live as long as the buffer, even after this
  // object.
  Result<Buffer> map() const;

 private:
  SealedMemory(Socket descriptor, std::size_t bytes)
      : descriptor_(std::move(descriptor)), bytes_(bytes) {}

  Socket descriptor_;  // of a file
  std::size_t bytes_ = 0;
};

}  // namespace sparcl::net
