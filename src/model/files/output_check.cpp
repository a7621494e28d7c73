#include "src/model/files/output_check.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace sparcl::model {
namespace {

bool would_overwrite(const std::string& output, const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(output, input, error)) return true;
  const fs::path folder =
      fs::path(output).has_parent_path() ? fs::path(output).parent_path() : fs::path(".");
  return fs::is_directory(input, error) && fs::equivalent(folder, input, error);
}

}  // namespace

Status check_output(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    if (!would_overwrite(output, input)) continue;
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: the result would overwrite {}, which it is made of: give another output",
                    output, input));
  }
  return {};
}

}  // namespace sparcl::model
