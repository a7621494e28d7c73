#pragma once
// Files of AWS with a section for each profile: "[name]" or "[profile name]", then "key = value".

#include <map>
#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace sparcl::store {

using AwsProfile = std::map<std::string, std::string>;

// The values of one section; empty if the file or the section is missing. Later values win.
// SystemError: the file cannot be read. InvalidArgument: a line is no such line; its text is not
// shown.
Result<AwsProfile> read_aws_profile(const std::string& path, std::string_view section);

}  // namespace sparcl::store
