#include "src/net/http/http_client.hpp"

namespace sparcl::net {

std::string_view HttpAnswer::header(std::string_view name) const {
  for (const auto& [own, value] : headers) {
    if (own == name) return value;
  }
  return {};
}

}  // namespace sparcl::net
