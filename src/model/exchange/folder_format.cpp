#include "src/model/exchange/folder_format.hpp"

#include <array>
#include <filesystem>

namespace sparcl::model {
namespace {

// In the order in which they are recognised: a folder of arc2 may have a config.json, too.
constexpr std::array kFolderFormats{&kHfXorFormat, &kHfXorXxh3Format, &kHfOverwriteFormat,
                                    &kSkyrlFormat, &kArc2Format,      &kHfFullFormat};

}  // namespace

std::span<const FolderFormat* const> folder_formats() { return kFolderFormats; }

const FolderFormat* find_folder_format(std::string_view name) {
  for (const FolderFormat* format : kFolderFormats) {
    if (format->name == name) return format;
  }
  return nullptr;
}

const FolderFormat* recognise_folder(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return nullptr;
  for (const FolderFormat* format : kFolderFormats) {
    if (format->is_it(path)) return format;
  }
  return nullptr;
}

}  // namespace sparcl::model
