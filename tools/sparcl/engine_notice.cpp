#include "tools/sparcl/engine_notice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "src/base/settings.hpp"
#include "src/base/shown_text.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/shell_command.hpp"
#include "tools/sparcl/signals.hpp"

namespace sparcl::tool {

using Clock = std::chrono::steady_clock;

// One request of an update.
struct EngineNotice::Step {
  std::string endpoint;
  Json body;
  bool may_be_missing = false;  // older engines answer 404, and do without it
};

// The requests of one version, in this order.
struct EngineNotice::Steps {
  Step pause;
  std::vector<Step> updates;
  std::optional<Step> abandon;  // after an update that failed
  Step resume;

  static Steps of(const EngineTarget& target, const Version& version, double timeout_s);
};

namespace {

constexpr double kAskSeconds = 5;              // for what an engine serves
constexpr std::chrono::seconds kStopGrace{5};  // for a request, after a stop is asked for
constexpr double kLastSeconds = 2;             // for each request that begins after that
constexpr std::size_t kShownBytes = 300;       // of an engine's answer
constexpr double kMaxConnectSeconds = 10;
using Kind = EngineTarget::Kind;

bool is_key(const std::string& key) {
  return std::ranges::all_of(key, [](char c) { return c > ' ' && c < '\x7f'; });
}

// What the user can do about this status.
std::string hint(const EngineTarget& target, int status) {
  if (status == 401 || status == 403) return ": give its key in SPARCL_ENGINE_API_KEY";
  if (status == 404 && target.kind == Kind::kVllm)
    return ": start vLLM with VLLM_SERVER_DEV_MODE=1";
  return {};
}

// The engine's reason, in whatever form.
std::string answer_text(const net::HttpAnswer& answer) {
  const std::string body(reinterpret_cast<const char*>(answer.body.data()), answer.body.size());
  const Json json = Json::parse(body, nullptr, false);
  std::string text = body;
  for (const char* name : {"message", "error", "detail"}) {
    if (!json.is_object() || !json.contains(name)) continue;
    const Json& member = json[name];
    if (member.is_string()) text = member.get<std::string>();
    break;
  }
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text.empty() ? "without a text" : shown_line(text);
}

// An engine has another working folder.
std::string absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  return error ? path : whole.string();
}

// SGLang says so in its answer, too.
bool says_failed(const net::HttpAnswer& answer) {
  const auto* const text = reinterpret_cast<const char*>(answer.body.data());
  const Json json = Json::parse(text, text + answer.body.size(), nullptr, false);
  return json.is_object() && json.contains("success") && json["success"] == false;
}

// After a stop the request has a few seconds.
std::function<bool()> until_stop() {
  return [since = std::optional<Clock::time_point>()]() mutable {
    if (!since && stop_is_asked()) since = Clock::now();
    return since && Clock::now() - *since > kStopGrace;
  };
}

}  // namespace

Result<std::unique_ptr<EngineNotice>> EngineNotice::open(const NoticeOptions& options) {
  std::unique_ptr<EngineNotice> made(new EngineNotice(options));
  const auto is_engine = [](const EngineTarget& each) { return each.kind != Kind::kCommand; };
  if (std::ranges::none_of(options.targets, is_engine)) return made;
  const SettingValue key = setting("ENGINE_API_KEY");
  if (key.source != "default") {
    if (!is_key(key.text))
      return Status(Code::kInvalidArgument,
                    "SPARCL_ENGINE_API_KEY is no key: it has a space, a line end or another byte "
                    "that a header cannot hold");
    made->authorization_ = "Bearer " + key.text;
  }
  net::HttpOptions http;
  if (const char* const file = std::getenv("CURL_CA_BUNDLE")) http.ca_file = file;
  http.ca_variable = "CURL_CA_BUNDLE";
  http.connect_timeout = std::chrono::milliseconds(
      std::llround(1e3 * std::min(options.timeout_s, kMaxConnectSeconds)) + 1);
  http.stall_timeout = std::chrono::seconds(std::llround(options.timeout_s) + 1);
  SPARCL_ASSIGN_OR_RETURN(made->client_, net::HttpClient::open(http));
  return made;
}

Status EngineNotice::check_output(const std::string& path, bool is_folder) const {
  if (!has_engines() || is_folder) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{}: the versions are single files, and engines read folders with a "
                            "configuration: publish folders, or use --notify exec:CMD",
                            path));
}

int EngineNotice::tell_all(Version version, std::optional<Version> previous, bool as_json) {
  int failures = 0;
  version.path = absolute(version.path);
  if (previous) previous->path = absolute(previous->path);
  for (const EngineTarget& target : options_.targets) {
    const Clock::time_point begin = Clock::now();
    const Status status = tell(target, version, previous);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    Json json{{"notified", target.text},
              {"notified_version", version.number},
              {"taken", status.ok()},
              {"seconds", std::round(seconds * 1e3) / 1e3}};
    if (!status.ok()) json["reason"] = status.message();
    print_news(as_json, json,
               fmt::format("{} {} version {} ({:.1f} s)\n", shown(target.text),
                           status.ok() ? "has taken" : "has not taken", version.number, seconds));
    if (status.ok()) {
      taken_[target.text] = version.number;
      continue;
    }
    ++failures;
    ++failed_;
    print_warning(fmt::format("--notify {}: version {}: {}; it is told again with the next version",
                              shown(target.text), version.number, status.message()));
  }
  return failures;
}

Status EngineNotice::tell(const EngineTarget& target, const Version& version,
                          const std::optional<Version>& previous) {
  if (target.kind != Kind::kCommand) return tell_engine(target, version, previous);
  return run_shell(target.command, {{"SUBSCRIBED_VERSION", std::to_string(version.number)},
                                    {"SUBSCRIBED_FILE", version.path}});
}

Result<net::HttpAnswer> EngineNotice::request(const EngineTarget& target, const char* method,
                                              const std::string& endpoint, const std::string& body,
                                              double timeout_s) {
  net::HttpRequest request;
  request.method = method;
  request.url = target.url + endpoint;
  request.headers = {{"content-type", "application/json"}};
  if (!authorization_.empty()) request.headers.emplace_back("authorization", authorization_);
  request.body = {std::as_bytes(std::span(body))};
  request.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(timeout_s));
  request.is_cancelled = until_stop();
  return client_->perform(request);
}

// An error names the endpoint, the status and the answer.
Status EngineNotice::post(const EngineTarget& target, const Step& step, double timeout_s) {
  const std::string what = fmt::format("POST {}", step.endpoint);
  const Result<net::HttpAnswer> answer =
      request(target, "POST", step.endpoint, step.body.dump(), timeout_s);
  if (!answer.ok())
    return Status(answer.status().code(),
                  fmt::format("{}: {}{}", what, shown_line(answer.status().message()),
                              answer.status().code() == Code::kTimeout
                                  ? fmt::format(" (the limit is {:g} s)", timeout_s)
                                  : ""));
  if (answer->status == 404 && step.may_be_missing) return {};
  if (answer->is_success() && !says_failed(*answer)) return {};
  return Status(Code::kRemoteError,
                fmt::format("{}: HTTP {}: {}{}", what, answer->status, answer_text(*answer),
                            hint(target, answer->status)));
}

// By its own word, or else by its last answers.
std::string EngineNotice::what_serves(const EngineTarget& target) {
  const Result<net::HttpAnswer> answer =
      request(target, "GET", target.kind == Kind::kVllm ? "/weight_info" : "/model_info", {},
              std::min(options_.timeout_s, kAskSeconds));
  if (answer.ok() && answer->is_success()) {
    const auto* const text = reinterpret_cast<const char*>(answer->body.data());
    const Json json = Json::parse(text, text + answer->body.size(), nullptr, false);
    if (json.is_object() && json.contains("weight_version") && json["weight_version"].is_string())
      return fmt::format("it says that it serves version {}",
                         shown(json["weight_version"].get<std::string>().substr(0, kShownBytes)));
  }
  const auto last = taken_.find(target.text);
  return last == taken_.end() ? "it has taken no version since this program began"
                              : fmt::format("the last version that it took is {}", last->second);
}

double EngineNotice::limit() const {
  return stop_is_asked() ? std::min(options_.timeout_s, kLastSeconds) : options_.timeout_s;
}

Status EngineNotice::update(const EngineTarget& target, const Steps& steps) {
  for (const Step& step : steps.updates) {
    const Status status = post(target, step, limit());
    if (status.ok()) continue;
    if (steps.abandon) (void)post(target, *steps.abandon, limit());  // the first error counts
    return status;
  }
  return {};
}

// After an update that failed: some weights may be of that version. Engines keep no copy of others.
std::string EngineNotice::go_back(const EngineTarget& target,
                                  const std::optional<Version>& previous) {
  if (!previous)
    return "; the version before is not on the disk any more, so its weights may be of both";
  const Status status = update(target, Steps::of(target, *previous, options_.timeout_s));
  if (status.ok()) return fmt::format("; it has read version {} again", previous->number);
  return fmt::format(
      "; it has not read version {} again either ({}), so its weights may be of both",
      previous->number, status.message());
}

// Generation goes on again whatever has failed.
Status EngineNotice::tell_engine(const EngineTarget& target, const Version& version,
                                 const std::optional<Version>& previous) {
  const Steps steps = Steps::of(target, version, options_.timeout_s);
  Status status = post(target, steps.pause, limit());
  const bool is_paused = status.ok();
  std::string after;
  if (is_paused) {
    status = update(target, steps);
    if (!status.ok()) after = go_back(target, previous);
  }
  const Status resumed = post(target, steps.resume, limit());
  if (status.ok() && resumed.ok()) return {};
  if (is_paused && !resumed.ok())
    after += fmt::format("; it may stay paused until POST {}{} is answered ({})", target.url,
                         steps.resume.endpoint, resumed.message());
  return Status(status.ok() ? resumed.code() : status.code(),
                fmt::format("{}{}; {}", status.ok() ? "its weights are updated" : status.message(),
                            after, what_serves(target)));
}

EngineNotice::Steps EngineNotice::Steps::of(const EngineTarget& target, const Version& version,
                                            double timeout_s) {
  const std::string label = std::to_string(version.number);
  if (target.kind == Kind::kSglang) {
    return {{"/pause_generation", {{"mode", target.mode}}},
            {{"/update_weights_from_disk",
              {{"model_path", version.path}, {"weight_version", label}, {"flush_cache", true}}}},
            {},
            {"/continue_generation", Json::object()}};
  }
  Steps steps{{"/pause?mode=" + target.mode, Json::object()}, {}, {}, {"/resume", Json::object()}};
  if (target.update == EngineTarget::Update::kTransfer) {
    steps.updates = {{"/start_weight_update", Json::object()},
                     {"/update_weights",
                      {{"update_info", {{"path", version.path}, {"version", version.number}}}}},
                     {"/finish_weight_update", {{"weight_version", label}}}};
    steps.abandon = Step{"/finish_weight_update", Json::object()};
    return steps;
  }
  steps.updates = {{"/collective_rpc",
                    {{"method", "reload_weights"},
                     {"kwargs", {{"weights_path", version.path}}},
                     {"timeout", timeout_s}}},
                   {"/update_weight_version", {{"new_version", label}}, true}};
  return steps;
}

}  // namespace sparcl::tool
