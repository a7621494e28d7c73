#include "src/replication/witness.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/files/file_lock.hpp"
#include "src/replication/record_file.hpp"
#include "src/trust/hex.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::replication {
namespace {

constexpr std::string_view kTermKind = "sparcl term 1";
constexpr auto kLockPatience = std::chrono::seconds(10);  // of a publisher that begins; heuristic

struct Taken {
  std::uint64_t term = 0;
  std::string holder, token;
};

// The last term that was taken; 0: none.
Result<Taken> read_term(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<RecordFields> fields, read_record(path, kTermKind));
  Taken taken;
  if (!fields) return taken;
  const std::string text = field_of(*fields, "term");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), taken.term);
  if (error != std::errc() || end != text.data() + text.size() || taken.term >= INT64_MAX)
    return Status(Code::kCorrupt,
                  fmt::format("{}: '{}' is no term: restore the file, or remove it if no publisher "
                              "runs",
                              path, text));
  taken.holder = field_of(*fields, "holder");
  taken.token = field_of(*fields, "token");
  return taken;
}

}  // namespace

Result<std::unique_ptr<Witness>> Witness::take(const std::string& path, const std::string& holder) {
  std::array<std::byte, 8> token{};
  SPARCL_RETURN_IF_ERROR(trust::fill_random(token));
  std::unique_ptr<Witness> made(new Witness(path, holder, trust::hex_of(token)));
  SPARCL_ASSIGN_OR_RETURN(const FileLock lock, FileLock::of_file(path + ".lock", kLockPatience));
  SPARCL_ASSIGN_OR_RETURN(const Taken last, read_term(path));
  SPARCL_RETURN_IF_ERROR(made->write(last.term + 1));
  return made;
}

Status Witness::raise(std::uint64_t term) {
  if (term <= term_) return {};
  SPARCL_ASSIGN_OR_RETURN(const FileLock lock, FileLock::of_file(path_ + ".lock", {}));
  SPARCL_RETURN_IF_ERROR(check());
  return write(term);
}

Status Witness::write(std::uint64_t term) {
  SPARCL_RETURN_IF_ERROR(write_record(
      path_, kTermKind, {{"term", std::to_string(term)}, {"holder", holder_}, {"token", token_}}));
  term_ = term;
  return {};
}

Status Witness::check() const {
  const std::uint64_t own = term_;  // before the file is read: it only rises, in the file first
  SPARCL_ASSIGN_OR_RETURN(const Taken last, read_term(path_));
  if (last.term >= own && last.token == token_) return {};
  if (last.term > own) {
    return Status(Code::kInvalidUsage,
                  fmt::format("{} has taken over in term {} (this publisher: {}, term {}; witness "
                              "{}): end this publisher",
                              last.holder, last.term, holder_, own, path_));
  }
  return Status(
      Code::kCorrupt,
      fmt::format("{}: it names term {} of {}, and this publisher has taken term {}: the "
                  "file was removed or restored. End all publishers but one, and start "
                  "it again",
                  path_, last.term, last.holder.empty() ? "no publisher" : last.holder, own));
}

}  // namespace sparcl::replication
