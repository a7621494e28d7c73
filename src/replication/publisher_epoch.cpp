#include "src/replication/publisher_epoch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>

#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"
#include "src/replication/record_file.hpp"

namespace sparcl::replication {
namespace {

constexpr std::string_view kStateKind = "sparcl publisher state 1";
constexpr std::uint64_t kYear = std::uint64_t{365} * 24 * 3600 * 1'000'000'000;
constexpr std::uint64_t kFirstClock = std::uint64_t{1'000'000} * 1'000'000'000;  // in 1970
constexpr std::uint64_t kLastEpoch = INT64_MAX;                                  // the year 2262
// The last one that a replica may name: a stolen key must not use up all epochs. In the year 2116.
constexpr std::uint64_t kLastLearned = std::uint64_t{1} << 62;
constexpr double kFirstPause =
    1;  // seconds between two unsigned epochs that count; twice as long each time
constexpr int kFreeRaises = 3;       // signed ones, at once; heuristic
constexpr double kLastPause = 3600;  // both heuristic

bool is_signed_by(const trust::SigningKeys& keys, const LatestHeld& latest,
                  const std::string& model_id) {
  if (!latest.proof) return false;
  const Commit& commit = latest.proof->commit;
  const std::vector<std::byte> bytes = serialise(commit);
  const auto is_own = [&](const trust::KeySignature& each) {
    return keys.has(each.key) && trust::is_signature(each.signature, bytes, each.key);
  };
  return commit.epoch == latest.epoch && commit.model_id == model_id &&
         std::ranges::any_of(latest.proof->signatures, is_own);
}

}  // namespace

std::uint64_t system_nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::string epoch_text(std::uint64_t epoch) {
  if (epoch < kFirstClock) return fmt::format("term {}", epoch);
  if (epoch > kLastEpoch) return fmt::format("{} (no time)", epoch);
  const auto seconds = static_cast<std::time_t>(epoch / 1'000'000'000);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return std::to_string(epoch);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

PublisherEpoch::PublisherEpoch(std::string path, WallClock clock)
    : path_(std::move(path)), clock_(std::move(clock)) {
  if (!clock_) clock_ = system_nanoseconds;
  load();
  value_ = begun_at_ = std::max(clock_(), saved_ + 1);
  save();
}

PublisherEpoch::PublisherEpoch(std::uint64_t term, WallClock clock)
    : clock_(std::move(clock)), is_by_clock_(false), value_(term), begun_at_(term) {
  if (!clock_) clock_ = system_nanoseconds;
}

void PublisherEpoch::load() {
  if (path_.empty()) return;
  const Result<std::optional<RecordFields>> fields = read_record(path_, kStateKind);
  if (!fields.ok()) {
    return log_warn(
        "replication: the publisher's last epoch is not known: {}; the publisher learns it from "
        "replicas and writes the file anew",
        fields.status().message());
  }
  if (!*fields) return;
  const std::string text = field_of(**fields, "epoch");
  std::uint64_t epoch = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), epoch);
  if (error == std::errc() && end == text.data() + text.size() && epoch < kLastEpoch)
    saved_ = epoch;
}

void PublisherEpoch::save() {
  if (path_.empty() || saved_ == value_) return;
  saved_ = value_;  // also where that fails: it is not tried again before there is something new
  const Status status = write_record(
      path_, kStateKind, {{"epoch", std::to_string(value_)}, {"begun", epoch_text(value_)}});
  if (status.ok()) return;
  log_warn(
      "replication: the publisher's epoch cannot be kept for its next life: {}; that one learns it "
      "from replicas",
      status.message());
}

Status PublisherEpoch::check_word(std::uint64_t epoch) const {
  const std::uint64_t limit = std::max(clock_(), begun_at_) + kYear;
  if (epoch > limit) {
    return Status(Code::kUnauthorized,
                  fmt::format("it holds a version of a publisher that began on {}, this one began "
                              "on {}. Epochs without a signature count up to {}: compare the "
                              "clocks of both hosts, or restart the replica",
                              epoch_text(epoch), epoch_text(value_), epoch_text(limit)));
  }
  return {};
}

Status PublisherEpoch::check_pause(std::uint64_t epoch, double now) const {
  if (now - raised_at_ >= pause_s_) return {};
  return Status(
      Code::kRemoteError,
      fmt::format("it holds a version of a publisher that began on {}, later than this one ({}), "
                  "whose epoch was raised {:.0f} s ago: the next time in {:.0f} s",
                  epoch_text(epoch), epoch_text(value_), now - raised_at_,
                  pause_s_ - (now - raised_at_)));
}

Result<bool> PublisherEpoch::learn(const LatestHeld& latest, const std::string& model_id,
                                   const trust::SigningKeys* keys, double now) {
  if (latest.epoch <= value_) return false;
  if (latest.epoch >= kLastLearned) {
    return Status(Code::kUnauthorized,
                  fmt::format("it holds a version of the epoch {}, after which there can be none: "
                              "let the replica begin without that version",
                              latest.epoch));
  }
  if (keys != nullptr && latest.proof && latest.proof->commit.model_id != model_id) {
    return Status(
        Code::kMismatch,
        fmt::format(
            "its record is of the model '{}', and this publisher has '{}'. Give the replica "
            "the address of its own publisher, or start it with another --out FILE (another "
            "record_path)",
            shown(latest.proof->commit.model_id), shown(model_id)));
  }
  if (keys != nullptr && !is_signed_by(*keys, latest, model_id)) {
    return Status(
        Code::kUnauthorized,
        fmt::format("it holds a version of a publisher that began on {}, this one began on {}. "
                    "The replica has no commit of that time that this publisher's key {} signed. "
                    "Compare the clocks, give the publisher its earlier key, or restart the "
                    "replica without its record (sparcl subscribe --allow-rollback)",
                    epoch_text(latest.epoch), epoch_text(value_),
                    trust::fingerprint(keys->first().public_key())));
  }
  if (keys == nullptr) {
    SPARCL_RETURN_IF_ERROR(check_word(latest.epoch));
  }
  if (is_by_clock_) {
    SPARCL_RETURN_IF_ERROR(check_pause(latest.epoch, now));
    const bool is_free = keys != nullptr && ++signed_raises_ <= kFreeRaises;
    if (!is_free) pause_s_ = pause_s_ == 0 ? kFirstPause : std::min(2 * pause_s_, kLastPause);
    if (!is_free) raised_at_ = now;
  }
  if (!is_by_clock_) {
    wanted_ = std::max(wanted_, latest.epoch + 1);
    return Status(
        Code::kRemoteError,
        fmt::format("it holds a version of {}, and this publisher has {}: it takes a later "
                    "term first",
                    epoch_text(latest.epoch), epoch_text(value_)));
  }
  log_warn(
      "replication: a replica has a version of a publisher that began on {}, later than this "
      "publisher ({}). The clock of the other publisher was ahead, the clock of this host is "
      "behind, or another publisher has the same key and model id. This publisher raises its "
      "epoch, and all replicas connect again",
      epoch_text(latest.epoch), epoch_text(value_));
  value_ = std::max(clock_(), latest.epoch + 1);
  return true;
}

}  // namespace sparcl::replication
