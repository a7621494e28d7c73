#include "src/elastic/round_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "src/aggregate/outer/aggregator_file.hpp"
#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/folder_list.hpp"
#include "src/base/log.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/fields.hpp"

namespace sparcl::elastic {
namespace {

constexpr std::uint32_t kRecordMagic = 0x31525053;  // "SPR1"
constexpr std::size_t kRecordHead = 24;             // magic, CRC32C of the content, bytes, CRC32C
constexpr std::uint64_t kMaxListed = std::uint64_t{1} << 32;
constexpr const char* kTermPrefix = "term-";
constexpr const char* kLogPrefix = "rounds-";

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// "rounds-R-N.log"
struct LogName {
  std::uint64_t round = 0, term = 0;
};
std::optional<LogName> parse_log_name(std::string_view name) {
  constexpr std::string_view kEnd = ".log";
  if (!name.starts_with(kLogPrefix) || !name.ends_with(kEnd)) return {};
  name.remove_prefix(std::strlen(kLogPrefix));
  name.remove_suffix(kEnd.size());
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return {};
  const auto round = number_in(name.substr(0, dash)), term = number_in(name.substr(dash + 1));
  if (!round || !term) return {};
  return LogName{*round, *term};
}

std::string weights_name(std::uint64_t round) {
  return fmt::format("{}.weights.safetensors", round);
}
std::string aggregator_name(std::uint64_t round) {
  return fmt::format("{}.aggregator.safetensors", round);
}

void write_part_bytes(ByteWriter& out, const Buffer& part) {
  out.write(static_cast<std::uint64_t>(part.size()));
  out.write_bytes(part.bytes());
}

bool read_part_bytes(ByteReader& in, Buffer& part) {
  std::uint64_t bytes = 0;
  std::span<const std::byte> content;
  if (!in.read(bytes) || bytes > in.remaining() || !in.read_bytes(bytes, content)) return false;
  part = Buffer::allocate(content.size());
  std::ranges::copy(content, part.data());
  return true;
}

// The records of a file up to its first incomplete one: the process may have ended while it wrote.
std::vector<LoggedRound> records_of(const std::string& path, std::span<const std::byte> bytes) {
  std::vector<LoggedRound> rounds;
  std::size_t at = 0;
  while (bytes.size() - at >= kRecordHead) {
    const std::byte* const head = bytes.data() + at;
    const auto size = load_le<std::uint64_t>(head + 8);
    const bool is_head = load_le<std::uint32_t>(head) == kRecordMagic &&
                         load_le<std::uint32_t>(head + 16) == crc32c({head, 16});
    if (!is_head || size > bytes.size() - at - kRecordHead) break;
    const std::span<const std::byte> content = bytes.subspan(at + kRecordHead, size);
    std::optional<LoggedRound> round =
        crc32c(content) == load_le<std::uint32_t>(head + 4) ? parse_logged(content) : std::nullopt;
    if (!round) break;
    rounds.push_back(std::move(*round));
    at += kRecordHead + size;
  }
  if (at < bytes.size())
    log_warn("aggregate: {}: the last {} bytes are no whole round, and do not count", path,
             bytes.size() - at);
  return rounds;
}

}  // namespace

std::vector<std::byte> serialise(const LoggedRound& round) {
  ByteWriter out;
  out.write(round.round);
  out.write(round.workers);
  model::write_double(out, round.total_weight);
  out.write(static_cast<std::uint8_t>(round.has_sum ? 1 : 0));
  out.write(static_cast<std::uint64_t>(round.listed.size()));
  for (const aggregate::ContributionId& id : round.listed) {
    out.write(id.worker);
    out.write(id.round);
  }
  write_part_bytes(out, round.sum);
  write_part_bytes(out, round.weights);
  return out.take();
}

std::optional<LoggedRound> parse_logged(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  LoggedRound round;
  std::uint64_t listed = 0;
  std::uint8_t has_sum = 0;
  if (!in.read(round.round) || !in.read(round.workers) ||
      !model::read_double(in, round.total_weight) || !in.read(has_sum) || has_sum > 1 ||
      !in.read(listed) || listed > kMaxListed || listed * 16 > in.remaining())
    return {};
  round.has_sum = has_sum == 1;
  round.listed.resize(listed);
  for (aggregate::ContributionId& id : round.listed) {
    if (!in.read(id.worker) || !in.read(id.round)) return {};
  }
  if (!read_part_bytes(in, round.sum) || !read_part_bytes(in, round.weights) || in.remaining() > 0)
    return {};
  return round;
}

Result<RoundLog> RoundLog::open(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return system_error(folder, "the folder of the rounds cannot be made");
  constexpr int kTries = 1000;  // other processes take terms meanwhile
  for (int i = 0; i < kTries; ++i) {
    SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(folder));
    std::uint64_t last = 0;
    for (const std::string& name : names) {
      if (name.starts_with(kTermPrefix))
        last = std::max(
            last, number_in(std::string_view(name).substr(std::strlen(kTermPrefix))).value_or(0));
    }
    const std::string path = fmt::format("{}/{}{}", folder, kTermPrefix, last + 1);
    const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return system_error(path, "it cannot be made");
    (void)::fsync(fd);
    (void)::close(fd);
    SPARCL_RETURN_IF_ERROR(sync_folder_of(path));
    if (last > 0) (void)::unlink(fmt::format("{}/{}{}", folder, kTermPrefix, last - 1).c_str());
    return RoundLog(folder, last + 1);
  }
  return Status(
      Code::kSystemError,
      fmt::format("{}: other processes take every term of it: let one aggregator use it", folder));
}

RoundLog::RoundLog(RoundLog&& other) noexcept
    : folder_(std::move(other.folder_)),
      model_id_(std::move(other.model_id_)),
      term_(other.term_),
      fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      bytes_(other.bytes_),
      past_bytes_(other.past_bytes_) {}

RoundLog::~RoundLog() {
  if (fd_ >= 0) (void)::close(fd_);
}

Status RoundLog::check_term() const {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(folder_));
  for (const std::string& name : names) {
    if (!name.starts_with(kTermPrefix)) continue;
    const auto term = number_in(std::string_view(name).substr(std::strlen(kTermPrefix)));
    if (term && *term > term_)
      return Status(Code::kInvalidUsage,
                    fmt::format("{}: another aggregator has taken over (term {}, this one has {}): "
                                "end this process",
                                folder_, *term, term_));
  }
  return {};
}

Result<RoundLog::Kept> RoundLog::read() const { return read_folder(folder_, term_); }

Result<RoundLog::Kept> RoundLog::look(const std::string& folder) {
  if (::access(folder.c_str(), F_OK) != 0 && errno == ENOENT) return Kept();
  return read_folder(folder, UINT64_MAX);
}

Result<RoundLog::Kept> RoundLog::read_folder(const std::string& folder, std::uint64_t before_term) {
  Kept kept;
  const auto path_of = [&](const std::string& name) { return folder + "/" + name; };
  const std::string current = path_of("current");
  if (::access(current.c_str(), F_OK) != 0) {
    if (errno == ENOENT) return kept;
    return system_error(current, "it cannot be read");
  }
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> text, read_file(current));
  std::string_view number(reinterpret_cast<const char*>(text.data()), text.size());
  while (number.ends_with('\n')) number.remove_suffix(1);
  const auto round = number_in(number);
  if (!round || *round == 0)
    return Status(Code::kCorrupt, fmt::format("{}: it names no round: take the folder's files away "
                                              "to begin anew",
                                              current));
  kept.round = *round;
  kept.weights_path = path_of(weights_name(*round));
  kept.aggregator_path = path_of(aggregator_name(*round));

  // Of two terms that ended the same round, the later one did not see the other's. What a file says
  // of rounds before its own first one is only what they listed: it replaces no sum.
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(folder));
  std::map<std::uint64_t, std::pair<std::uint64_t, LoggedRound>> rounds, past;
  for (const std::string& name : names) {
    const auto log = parse_log_name(name);
    if (!log || log->term >= before_term) continue;
    SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path_of(name)));
    for (LoggedRound& each : records_of(path_of(name), bytes)) {
      auto& all = each.round < log->round ? past : rounds;
      const auto known = all.find(each.round);
      if (known == all.end() || known->second.first < log->term)
        all[each.round] = {log->term, std::move(each)};
    }
  }
  for (auto& [ended, logged] : rounds) {
    if (ended < kept.round) past.insert_or_assign(ended, std::move(logged));
  }
  for (auto& [ended, logged] : past) {
    if (ended < kept.round) kept.past.push_back(std::move(logged.second));
  }
  for (std::uint64_t next = kept.round; rounds.contains(next); ++next)
    kept.rounds.push_back(std::move(rounds[next].second));
  return kept;
}

Status RoundLog::begin_file(std::uint64_t round) {
  if (fd_ >= 0) (void)::close(std::exchange(fd_, -1));
  path_ = path_of(fmt::format("{}{}-{}.log", kLogPrefix, round, term_));
  fd_ = ::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ < 0) return system_error(path_, "it cannot be made");
  bytes_ = past_bytes_ = 0;
  return sync_folder_of(path_);
}

Status RoundLog::append(const LoggedRound& round) {
  if (fd_ < 0) SPARCL_RETURN_IF_ERROR(begin_file(round.round));
  SPARCL_RETURN_IF_ERROR(write(round));
  if (::fdatasync(fd_) != 0) return system_error(path_, "a round cannot be made durable");
  return check_term();
}

Status RoundLog::write(const LoggedRound& round) {
  const std::vector<std::byte> content = serialise(round);
  std::vector<std::byte> record(kRecordHead + content.size());
  store_le(record.data(), kRecordMagic);
  store_le(record.data() + 4, crc32c(content));
  store_le(record.data() + 8, static_cast<std::uint64_t>(content.size()));
  store_le(record.data() + 16, crc32c(std::span(record).first(16)));
  std::ranges::copy(content, record.begin() + kRecordHead);
  for (std::size_t done = 0; done < record.size();) {
    const ssize_t moved = ::pwrite(fd_, record.data() + done, record.size() - done,
                                   static_cast<off_t>(bytes_ + done));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return system_error(path_, "a round cannot be written");
    done += static_cast<std::size_t>(moved);
  }
  bytes_ += record.size();
  return {};
}

Status RoundLog::keep(std::uint64_t round, std::span<const float> weights,
                      aggregate::Aggregator& aggregator, std::span<const LoggedRound> past) {
  const std::byte* const bytes = reinterpret_cast<const std::byte*>(weights.data());
  const model::Schema schema{{"weights", DataType::kFloat32, {weights.size()}}};
  SPARCL_RETURN_IF_ERROR(model::write_safetensors(
      path_of(weights_name(round)), schema, std::span(&bytes, 1), {{kModelIdKey, model_id_}}));
  SPARCL_RETURN_IF_ERROR(aggregate::save_aggregator(aggregator, path_of(aggregator_name(round))));
  SPARCL_RETURN_IF_ERROR(begin_file(round));
  for (const LoggedRound& each : past) SPARCL_RETURN_IF_ERROR(write(each));
  if (::fdatasync(fd_) != 0) return system_error(path_, "it cannot be made durable");
  SPARCL_RETURN_IF_ERROR(check_term());
  past_bytes_ = bytes_;
  SPARCL_ASSIGN_OR_RETURN(AtomicFile current, AtomicFile::create(path_of("current")));
  const std::string text = fmt::format("{}\n", round);
  SPARCL_RETURN_IF_ERROR(current.write(std::as_bytes(std::span(text))));
  SPARCL_RETURN_IF_ERROR(current.commit());
  remove_before(round);
  return {};
}

void RoundLog::remove_before(std::uint64_t round) const {
  const Result<std::vector<std::string>> names = names_in_folder(folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string_view text = name;
    const std::size_t dot = text.find('.');
    const auto log = parse_log_name(text);
    const auto state =
        dot != std::string_view::npos ? number_in(text.substr(0, dot)) : std::nullopt;
    const bool is_old = (log && log->round < round) ||
                        (state && *state < round &&
                         (text == weights_name(*state) || text == aggregator_name(*state)));
    if (is_old) (void)::unlink(path_of(name).c_str());
  }
}

}  // namespace sparcl::elastic
