#include "src/api/file_hooks.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparcl::api {
namespace {

// No struct ends in padding, so that its size tells which fields it has.
#define SPARCL_ENDS_WITH_(Struct, field) \
  static_assert(offsetof(Struct, field) + sizeof(Struct::field) == sizeof(Struct))
SPARCL_ENDS_WITH_(sparclFileOptions_t, arg);
SPARCL_ENDS_WITH_(sparclFileDiffOptions_t, with_identities);
SPARCL_ENDS_WITH_(sparclFileSignOptions_t, adds);
SPARCL_ENDS_WITH_(sparclFileSignatureOptions_t, trust_threshold);
SPARCL_ENDS_WITH_(sparclFileReport_t, same_header);
SPARCL_ENDS_WITH_(sparclFileAdvice_t, modes);
#undef SPARCL_ENDS_WITH_

Status cancelled(sparclResult_t result) {
  if (result == sparclSuccess) return Status();
  if (!is_code(result)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("on_progress returned {}, which is no sparclResult_t: return "
                              "sparclSuccess to go on",
                              static_cast<int>(result)));
  }
  return Status(static_cast<Code>(result),
                fmt::format("on_progress cancelled the call with {}: nothing is written",
                            code_name(static_cast<Code>(result))));
}

}  // namespace

model::FileWatch watch_of(sparclFileProgress_t on_progress, sparclFileNote_t on_note, void* arg) {
  model::FileWatch watch;
  if (on_progress != nullptr) {
    watch.on_progress = [on_progress, arg](std::uint64_t done_bytes, std::uint64_t total_bytes) {
      return cancelled(on_progress(done_bytes, total_bytes, arg));
    };
  }
  if (on_note != nullptr) {
    watch.on_stray_shards = [on_note, arg](const std::vector<std::string>& paths) {
      for (const std::string& path : paths) on_note(sparclFileNotInIndex, path.c_str(), arg);
    };
  }
  return watch;
}

Status check_text(const char* parameter, const char* text) {
  if (text != nullptr) return Status();
  return Status(Code::kInvalidArgument, fmt::format("{} is NULL", parameter));
}

}  // namespace sparcl::api
