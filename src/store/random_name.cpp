#include "src/store/random_name.hpp"

#include <array>

#include "src/trust/hex.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::store {

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes{};
  SPARCL_RETURN_IF_ERROR(trust::fill_random(bytes));
  return trust::hex_of(bytes);
}

}  // namespace sparcl::store
