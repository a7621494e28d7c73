#include "tools/sparcl/notice_options.hpp"

#include "src/base/settings.hpp"
#include "tools/number_checks.hpp"

namespace sparcl::tool {
namespace {

std::string notice_fault(const std::string& text) {
  return EngineTarget::parse(text).status().message();
}

}  // namespace

void add_notices(CLI::App& app, std::vector<std::string>& targets, NoticeOptions& notice) {
  app.add_option("--notify", targets,
                 "tell an engine of each version that FILE has come to: it pauses, reads FILE "
                 "and resumes. vllm:URL, sglang:URL or exec:CMD; may be given more than once. "
                 "SPARCL_ENGINE_API_KEY is sent as its key")
      ->type_name("TARGET")
      ->check(notice_fault, "", "")
      ->take_all();
  app.add_option("--notify-timeout", notice.timeout_s,
                 "of each request to an engine (default: 600)")
      ->type_name("SECONDS")
      ->transform(real_number(0.1, kMaxSeconds));
}

}  // namespace sparcl::tool
