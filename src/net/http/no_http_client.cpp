// Of builds without libcurl.
#include "src/net/http/http_client.hpp"

namespace sparcl::net {

Result<std::unique_ptr<HttpClient>> HttpClient::open(const HttpOptions& /*options*/) {
  return Status(Code::kUnsupported,
                "this library was built without libcurl: install the package libcurl4-openssl-dev, "
                "and build with SPARCL_S3=ON");
}

}  // namespace sparcl::net
