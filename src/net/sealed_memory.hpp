#pragma once
// Memory that processes of one machine and user share to read: sealed, neither its maker nor
// anybody else can change it or cut it short any more (memfd_create(2), fcntl(2): F_ADD_SEALS). So
// what was checked stays as it was, whoever made it.

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
  // What process `pid` has made, by its number there, which stays its own only while it keeps it
  // open. Corrupt: it is no such memory, could still be changed or cut short, or has another size.
  // SystemError: it cannot be reached (another user's, another namespace).
  static Result<SealedMemory> of_process(std::int64_t pid, int descriptor, std::size_t bytes);

  int descriptor() const { return descriptor_.fd(); }
  std::size_t size() const { return bytes_; }
  // To be read only: a write ends the process. The bytes stay as long as the buffer, whatever
  // becomes of this.
  Result<Buffer> map() const;

 private:
  SealedMemory(Socket descriptor, std::size_t bytes)
      : descriptor_(std::move(descriptor)), bytes_(bytes) {}

  Socket descriptor_;  // of a file
  std::size_t bytes_ = 0;
};

}  // namespace sparcl::net
