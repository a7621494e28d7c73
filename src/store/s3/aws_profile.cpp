#include "src/store/s3/aws_profile.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>

#include "src/base/error_text.hpp"

namespace sparcl::store {
namespace {

constexpr std::size_t kMaxLines = 10'000;

std::string_view without_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

Result<AwsProfile> read_aws_profile(const std::string& path, std::string_view section) {
  AwsProfile profile;
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return profile;
    return Status(Code::kSystemError,
                  fmt::format("{}: it cannot be read: {}", path, error_text(errno)));
  }
  bool is_own = false;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line) && number <= kMaxLines; ++number) {
    const std::string_view text = without_spaces(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    if (text.front() == '[') {
      const std::size_t end = text.find(']');
      is_own = end != std::string_view::npos && without_spaces(text.substr(1, end - 1)) == section;
      continue;
    }
    if (!is_own || line.front() == ' ' || line.front() == '\t')
      continue;  // values of a sub-section
    const std::size_t sign = text.find('=');
    if (sign == std::string_view::npos)
      return Status(Code::kInvalidArgument,
                    fmt::format("{}:{}: the line is no 'name = value'", path, number));
    profile[std::string(without_spaces(text.substr(0, sign)))] =
        without_spaces(text.substr(sign + 1));
  }
  return profile;
}

}  // namespace sparcl::store
