#include "src/transport/ucx/ucx_check.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <cstdlib>

namespace sparcl {
namespace {

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

std::string tls_setting() {
  const char* text = std::getenv("UCX_TLS");
  return text != nullptr ? fmt::format("UCX_TLS={}", text) : "UCX_TLS is not set";
}

}  // namespace

UcxCheck check_ucx() {
  ::setenv("UCX_LOG_LEVEL", "fatal", 1);  // it would write to standard output
  ::setenv("UCX_HANDLE_ERRORS", "none", 1);
  void* library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {true, fmt::format("not tried here: {}", ::dlerror())};  // libsparcl may find its own
  const auto read = find<decltype(ucp_config_read)>(library, "ucp_config_read");
  const auto release = find<decltype(ucp_config_release)>(library, "ucp_config_release");
  const auto init = find<decltype(ucp_init_version)>(library, "ucp_init_version");
  const auto cleanup = find<decltype(ucp_cleanup)>(library, "ucp_cleanup");
  const auto text_of = find<decltype(ucs_status_string)>(library, "ucs_status_string");  // of a library that it needs
  const auto explain = [&](const char* what, ucs_status_t status) {
    return UcxCheck{
        false, fmt::format("{} fails: {} ({}; `ucx_info -d` shows what there is)", what,
                           text_of != nullptr ? text_of(status) : fmt::to_string(static_cast<int>(status)).c_str(), tls_setting())};
  };
  if (read == nullptr || release == nullptr || init == nullptr || cleanup == nullptr)
    return {false, "libucp.so.0 is of another kind"};
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = read(nullptr, nullptr, &config); status != UCS_OK) return explain("ucp_config_read", status);
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;  // as libsparcl asks for
  ucp_context_h context = nullptr;
  const ucs_status_t status = init(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  release(config);
  if (status != UCS_OK) return explain("ucp_init", status);
  cleanup(context);
  return {true, ""};
}

}  // namespace sparcl
