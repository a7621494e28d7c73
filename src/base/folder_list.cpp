#include "src/base/folder_list.hpp"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "src/base/error_text.hpp"

namespace sparcl {

Result<std::vector<std::string>> names_in_folder(const std::string& folder) {
  const auto failed = [&] {
    return Status(Code::kSystemError,
                  fmt::format("{}: cannot be listed: {}", folder, error_text(errno)));
  };
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return failed();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr && errno != 0) return failed();
    if (entry == nullptr) break;
    if (const std::string_view name = entry->d_name; name != "." && name != "..")
      names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace sparcl
