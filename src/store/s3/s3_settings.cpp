#include "src/store/s3/s3_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "src/store/s3/aws_profile.hpp"

namespace sparcl::store {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::size_t kMaxPrefix = 500;  // with a key it stays below the 1,024 bytes of S3

Status bad_address(std::string_view url, std::string_view why) {
  return Status(Code::kInvalidArgument,
                fmt::format("'{}' is no address of a store: {}: expected s3://BUCKET/PREFIX",
                            url.substr(0, 200), why));
}

bool is_in_bucket_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

Status parse_address(std::string_view url, S3Settings& settings) {
  std::string_view rest = url.substr(kScheme.size());
  settings.bucket = rest.substr(0, rest.find('/'));
  rest.remove_prefix(std::min(settings.bucket.size() + 1, rest.size()));
  while (rest.ends_with('/')) rest.remove_suffix(1);
  settings.prefix = rest;
  const std::string& bucket = settings.bucket;
  if (bucket.size() < 3 || bucket.size() > 63 || !std::ranges::all_of(bucket, is_in_bucket_name) ||
      bucket.front() == '.' || bucket.front() == '-')
    return bad_address(url, "a bucket has 3 to 63 letters, digits, '.', '-' and '_'");
  if (rest.size() > kMaxPrefix) return bad_address(url, "its prefix has more than 500 bytes");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::ranges::any_of(rest, is_control)) return bad_address(url, "it has a control character");
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (part.empty() || part == "." || part == "..")
      return bad_address(url, "a part of its prefix is empty, '.' or '..'");
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return {};
}

// The files and the variables, in the order of AWS: a variable wins.
class AwsSources {
 public:
  explicit AwsSources(const ReadVariable& variable) : variable_(variable) {}

  Status read_files() {
    profile_ = variable_("AWS_PROFILE").value_or("default");
    credentials_path_ = file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    config_path_ = file_of("AWS_CONFIG_FILE", "config");
    SPARCL_ASSIGN_OR_RETURN(credentials_, read_aws_profile(credentials_path_, profile_));
    const std::string section = profile_ == "default" ? profile_ : "profile " + profile_;
    SPARCL_ASSIGN_OR_RETURN(config_, read_aws_profile(config_path_, section));
    return {};
  }
  // The first of the variables that is set, or the profile's value.
  std::string value(std::initializer_list<const char*> variables, const char* key) const {
    for (const char* const each : variables) {
      if (const auto text = variable_(each)) return *text;
    }
    for (const AwsProfile* const file : {&credentials_, &config_}) {
      if (const auto found = file->find(key); found != file->end()) return found->second;
    }
    return "";
  }
  Result<AwsKeys> keys() const {
    const auto key_id = variable_("AWS_ACCESS_KEY_ID"), secret = variable_("AWS_SECRET_ACCESS_KEY");
    if (key_id && secret)
      return AwsKeys{*key_id, *secret, variable_("AWS_SESSION_TOKEN").value_or("")};
    if (key_id || secret)
      return Status(Code::kInvalidArgument,
                    fmt::format("{} is set and {} is not: set both, or none of them",
                                key_id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                                key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
    for (const AwsProfile* const file : {&credentials_, &config_}) {
      const auto id = file->find("aws_access_key_id"), own = file->find("aws_secret_access_key");
      if (id == file->end() || own == file->end()) continue;
      const auto token = file->find("aws_session_token");
      return AwsKeys{id->second, own->second, token == file->end() ? "" : token->second};
    }
    return Status(
        Code::kInvalidArgument,
        fmt::format("no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and "
                    "profile '{}' has no aws_access_key_id and aws_secret_access_key in {} or {}. "
                    "Keys of roles, SSO or processes are not fetched: `aws configure "
                    "export-credentials --format env` prints them as variables",
                    profile_, credentials_path_, config_path_));
  }

 private:
  std::string file_of(const char* variable, const char* name) const {
    if (const auto given = variable_(variable)) return *given;
    return fmt::format("{}/.aws/{}", variable_("HOME").value_or(""), name);
  }

  const ReadVariable& variable_;
  std::string profile_, credentials_path_, config_path_;
  AwsProfile credentials_, config_;
};

// Both are sent in headers.
Status check_keys(const AwsKeys& keys) {
  for (const std::string& text : {keys.key_id, keys.session_token}) {
    const auto is_odd = [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F; };
    if (std::ranges::any_of(text, is_odd))
      return Status(Code::kInvalidArgument,
                    "the access key or the session token has a space or a control character");
  }
  return {};
}

Result<bool> wants_path_style(const ReadVariable& variable, bool fallback) {
  const std::string text = variable("SPARCL_S3_PATH_STYLE").value_or("auto");
  if (text == "auto") return fallback;
  if (text == "on" || text == "off") return text == "on";
  return Status(Code::kInvalidArgument,
                fmt::format("SPARCL_S3_PATH_STYLE={}: expected one of auto|on|off", text));
}

// endpoint: "" for AWS.
Status set_host(const std::string& endpoint, const ReadVariable& variable, S3Settings& settings) {
  const bool has_dots = settings.bucket.find('.') != std::string::npos;
  SPARCL_ASSIGN_OR_RETURN(settings.is_path_style,
                          wants_path_style(variable, has_dots || !endpoint.empty()));
  settings.scheme = endpoint.starts_with("http://") ? "http" : "https";
  if (endpoint.empty()) {
    settings.host = fmt::format("s3.{}.amazonaws.com{}", settings.region,
                                settings.region.starts_with("cn-") ? ".cn" : "");
  } else {
    const std::string start = settings.scheme + "://";
    settings.host = endpoint.starts_with(start) ? endpoint.substr(start.size()) : "";
    while (settings.host.ends_with('/')) settings.host.pop_back();
    if (settings.host.empty() || settings.host.find_first_of("/@?# ") != std::string::npos)
      return Status(Code::kInvalidArgument,
                    "the endpoint of S3 (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url of "
                    "the profile) is not https://HOST:PORT or http://HOST:PORT");
  }
  if (!settings.is_path_style) settings.host = settings.bucket + "." + settings.host;
  return {};
}

}  // namespace

std::string S3Settings::path_of(std::string_view key) const {
  const std::string start = is_path_style ? "/" + uri_encoded(bucket, false) : "";
  if (key.empty()) return start.empty() ? "/" : start;
  return start + "/" + uri_encoded(key, true);
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

Status check_s3_address(std::string_view url) {
  S3Settings settings;
  return parse_address(url, settings);
}

Result<S3Settings> read_s3_settings(std::string_view url, const ReadVariable& variable) {
  S3Settings settings;
  SPARCL_RETURN_IF_ERROR(parse_address(url, settings));
  AwsSources sources(variable);
  SPARCL_RETURN_IF_ERROR(sources.read_files());
  SPARCL_ASSIGN_OR_RETURN(settings.keys, sources.keys());
  SPARCL_RETURN_IF_ERROR(check_keys(settings.keys));
  settings.region = sources.value({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  if (settings.region.empty()) settings.region = "us-east-1";
  const auto is_of_region = [](char c) { return is_in_bucket_name(c) && c != '.'; };
  if (!std::ranges::all_of(settings.region, is_of_region))
    return Status(Code::kInvalidArgument,
                  fmt::format("AWS_REGION={}: expected a name such as us-east-1", settings.region));
  settings.ca_file = sources.value({"AWS_CA_BUNDLE"}, "ca_bundle");
  SPARCL_RETURN_IF_ERROR(
      set_host(sources.value({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url"), variable,
               settings));
  return settings;
}

}  // namespace sparcl::store
