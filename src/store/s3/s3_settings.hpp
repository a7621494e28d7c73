#pragma once
// Which server, bucket and keys: from the address s3://BUCKET/PREFIX, the environment and the files
// of AWS.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.hpp"
#include "src/store/s3/sigv4.hpp"

namespace sparcl::store {

struct S3Settings {
  std::string bucket, prefix;  // without '/' at the ends; prefix may be ""
  std::string scheme, host;    // of the URL, with the bucket in host unless it is in the path
  bool is_path_style = false;
  std::string region, ca_file;
  AwsKeys keys;

  // The path of a URL, encoded. key: with the prefix; "": the bucket.
  std::string path_of(std::string_view key) const;
};

// nullopt: it is not set.
using ReadVariable = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment_variable(const char* name);

// Reads the files of AWS. InvalidArgument: the address, a variable or a file is wrong, or no keys
// were found; the text names what was looked at, and no secret.
// InvalidArgument: it is no s3://BUCKET/PREFIX, and why.
Status check_s3_address(std::string_view url);
Result<S3Settings> read_s3_settings(std::string_view url, const ReadVariable& variable);

}  // namespace sparcl::store
