#include "src/store/random_name.hpp"

#include <sys/random.h>

#include <array>

#include "src/trust/hex.hpp"

namespace sparcl::store {

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Status(Code::kSystemError, "getrandom() gives no random bytes");
  return trust::hex_of(bytes);
}

}  // namespace sparcl::store
