#pragma once
// Tells inference engines of a version that a folder holds: pause, update, resume. An engine that
// cannot be told keeps what it serves. One that fails while it reads weights is given the version
// before again.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/net/http/http_client.hpp"
#include "tools/sparcl/engine_target.hpp"

namespace sparcl::tool {

struct NoticeOptions {
  std::vector<EngineTarget> targets;
  double timeout_s = 600;  // of each request
};

class EngineNotice {
 public:
  // Unsupported: libcurl is missing. InvalidArgument: the API key is none. The key stands in the
  // environment, and is never shown.
  static Result<std::unique_ptr<EngineNotice>> open(const NoticeOptions& options);

  struct Version {
    std::uint64_t number = 0;
    std::string path;  // of the folder or file
  };
  // One target after the other; prints a line for each of them, and a warning for each that failed.
  // previous: an engine that fails while it reads weights is given this version again. Returns how
  // many failed.
  int tell_all(Version version, std::optional<Version> previous, bool as_json);

  // InvalidArgument: engines are to be told, and the output is no folder.
  Status check_output(const std::string& path, bool is_folder) const;
  bool has_engines() const { return client_ != nullptr; }
  std::uint64_t failed() const { return failed_; }  // since the start, from any thread

 private:
  struct Step;
  struct Steps;
  explicit EngineNotice(const NoticeOptions& options) : options_(options) {}

  Status tell(const EngineTarget& target, const Version& version,
              const std::optional<Version>& previous);
  Status tell_engine(const EngineTarget& target, const Version& version,
                     const std::optional<Version>& previous);
  Status update(const EngineTarget& target, const Steps& steps);
  std::string go_back(const EngineTarget& target, const std::optional<Version>& previous);
  double limit() const;
  Status post(const EngineTarget& target, const Step& step, double timeout_s);
  Result<net::HttpAnswer> request(const EngineTarget& target, const char* method,
                                  const std::string& endpoint, const std::string& body,
                                  double timeout_s);
  std::string what_serves(const EngineTarget& target);

  NoticeOptions options_;
  std::unique_ptr<net::HttpClient> client_;     // nullptr: there are only commands
  std::string authorization_;                   // "": there is no key
  std::map<std::string, std::uint64_t> taken_;  // the last version that a target took, by its text
  std::atomic<std::uint64_t> failed_ = 0;
};

}  // namespace sparcl::tool
