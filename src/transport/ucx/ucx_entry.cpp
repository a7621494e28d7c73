// The exports of libsparcl_ucx.so (src/transport/ucx_plugin.hpp).

#include <fmt/format.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <cstdarg>
#include <cstdio>

#include "src/base/build_id.hpp"
#include "src/transport/ucx/ucx_transport.hpp"
#include "src/transport/ucx/ucx_worker.hpp"
#include "src/transport/ucx_plugin.hpp"

namespace sparcl::transport {
namespace {

Result<std::unique_ptr<Transport>> make_connected(int rank, int ranks,
                                                  const OutOfBandGather& gather,
                                                  const UcxOptions& options, double timeout_s) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> made,
                          UcxTransport::create(rank, ranks, gather, options));
  SPARCL_RETURN_IF_ERROR((made)->connect(timeout_s));
  return std::unique_ptr<Transport>(std::move(made));
}

Status try_out_ucx() { return UcxWorker::open().status(); }

std::string version_of_ucx() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

ucs_log_func_rc_t print_on_stderr(const char*, unsigned, const char*, ucs_log_level_t level,
                                  const ucs_log_component_config_t*, const char* format,
                                  va_list arguments) {
  std::array<char, 1024> text{};
  (void)std::vsnprintf(text.data(), text.size(), format, arguments);
  (void)std::fprintf(stderr, "UCX %s: %s\n", ucs_log_level_names[level], text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

void log_ucx_to_stderr() { ucs_log_push_handler(print_on_stderr); }

}  // namespace
}  // namespace sparcl::transport

#define SPARCL_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))

SPARCL_PLUGIN_EXPORT const char* sparclUcxPluginBuild() { return sparcl::build_id(); }

SPARCL_PLUGIN_EXPORT const sparcl::transport::UcxPlugin* sparclUcxPluginTable() {
  static constexpr sparcl::transport::UcxPlugin table{
      sparcl::transport::make_connected, sparcl::transport::UcxWorker::is_open_in_process,
      sparcl::transport::try_out_ucx, sparcl::transport::version_of_ucx,
      sparcl::transport::log_ucx_to_stderr};
  return &table;
}
