#include "src/replication/witness.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/files/file_lock.hpp"
#include "src/net/socket.hpp"
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
  SPARCL_FAILPOINT("witness.read");
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

// All that touches the file. It may hang, and nothing else waits for it then.
class Witness::File {
 public:
  File(std::string path, std::string holder, std::string token)
      : path_(std::move(path)), holder_(std::move(holder)), token_(std::move(token)) {}

  const std::string& path() const { return path_; }
  std::uint64_t term() const { return term_; }
  Status take();
  Status raise(std::uint64_t term);
  Status check() const;
  // A take() that goes on takes no term, unless it is at writing that already.
  void abandon() { is_abandoned_ = true; }

 private:
  Status write(std::uint64_t term);

  const std::string path_, holder_;
  const std::string token_;  // random: two publishers of one process have one name
  std::atomic<std::uint64_t> term_{0};
  std::atomic<bool> is_abandoned_{false};
};

Status Witness::File::take() {
  SPARCL_ASSIGN_OR_RETURN(const FileLock lock, FileLock::of_file(path_ + ".lock", kLockPatience));
  SPARCL_ASSIGN_OR_RETURN(const Taken last, read_term(path_));
  if (is_abandoned_) return Status(Code::kTimeout, "too late");
  return write(last.term + 1);
}

Status Witness::File::raise(std::uint64_t term) {
  if (term <= term_) return {};
  SPARCL_ASSIGN_OR_RETURN(const FileLock lock, FileLock::of_file(path_ + ".lock", {}));
  SPARCL_RETURN_IF_ERROR(check());
  return write(term);
}

Status Witness::File::write(std::uint64_t term) {
  SPARCL_RETURN_IF_ERROR(write_record(
      path_, kTermKind, {{"term", std::to_string(term)}, {"holder", holder_}, {"token", token_}}));
  term_ = term;
  return {};
}

Status Witness::File::check() const {
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

Result<std::unique_ptr<Witness>> Witness::take(const std::string& path, const std::string& holder,
                                               double patience_s) {
  std::array<std::byte, 8> token{};
  SPARCL_RETURN_IF_ERROR(trust::fill_random(token));
  const auto file = std::make_shared<File>(path, holder, trust::hex_of(token));
  std::unique_ptr<Witness> made(new Witness(file, patience_s));
  // The lock has its own patience, and tells who to look for.
  made->patience_s_ += std::chrono::duration<double>(kLockPatience).count();
  const Status status = made->call([file] { return file->take(); });
  made->patience_s_ = patience_s;
  if (!status.ok()) file->abandon();
  SPARCL_RETURN_IF_ERROR(status);
  return made;
}

std::uint64_t Witness::term() const { return file_->term(); }

Status Witness::raise(std::uint64_t term) {
  if (term <= file_->term()) return {};
  return call([file = file_, term] { return file->raise(term); });
}

Status Witness::check() {
  return call([file = file_] { return file->check(); });
}

// An earlier call that hung may have an answer of that time: it does not count.
Status Witness::call(std::function<Status()> what) {
  const std::lock_guard lock(calling_);
  const double until = net::monotonic_seconds() + patience_s_;
  if (call_.is_under_way() && !call_.wait(patience_s_)) return silent();
  SPARCL_RETURN_IF_ERROR(call_.start(std::move(what)));
  const std::optional<Status> result = call_.wait(until - net::monotonic_seconds());
  return result ? *result : silent();
}

std::optional<Status> Witness::look(std::uint64_t term, double now) {
  if (!look_.is_under_way()) {
    looks_since_ = now;
    const Status started = look_.start([file = file_, term] {
      SPARCL_RETURN_IF_ERROR(file->check());
      return file->raise(term);
    });
    if (!started.ok()) return started;
  }
  std::optional<Status> result = look_.wait(0);
  if (!result && now - looks_since_ > patience_s_) result = silent();
  return result;
}

Status Witness::silent() const {
  return Status(Code::kTimeout,
                fmt::format("{}: the file system has not answered for {:g} s, so it is not known "
                            "whether another publisher has taken over: look at the file system, "
                            "then publish again",
                            file_->path(), patience_s_));
}

}  // namespace sparcl::replication
