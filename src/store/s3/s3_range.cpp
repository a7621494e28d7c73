#include "src/store/s3/s3_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"

namespace sparcl::store {
namespace {

bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_character(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// Takes the answers to one range; each begins where the one before ended.
class RangeReading {
 public:
  RangeReading(const S3Range& range, const std::function<Status(std::span<const std::byte>)>& take)
      : range_(range), take_(take) {}

  std::uint64_t done() const { return done_; }
  bool is_over() const { return done_ == range_.count; }
  // "": all of the object is wanted.
  std::string header() const {
    if (done_ == 0 && range_.first == 0 && range_.object_bytes == range_.count) return "";
    return fmt::format("bytes={}-{}", range_.first + done_, range_.first + range_.count - 1);
  }

  Status begin(const net::HttpAnswer& head) {
    const std::string_view named = head.header("content-range");
    const std::uint64_t wanted = range_.first + done_;
    std::uint64_t length = 0;
    std::string_view text = head.header("content-length");
    if (!take_number(text, length) || !text.empty())
      return corrupt("the answer does not say its length (Content-Length)");
    ContentRange sent{0, length == 0 ? 0 : length - 1, length};  // without the header: all of it
    if (!named.empty()) {
      const std::optional<ContentRange> parsed = parse_content_range(named);
      if (!parsed || parsed->last < parsed->first || parsed->last - parsed->first + 1 != length)
        return corrupt(fmt::format("the answer has {} bytes and the range '{}'", length,
                                   shown(named.substr(0, 100))));
      sent = *parsed;
    } else if (head.status == 206) {
      return corrupt("the answer has status 206 and no range (Content-Range)");
    }
    SPARCL_RETURN_IF_ERROR(check_size(sent.object_bytes));
    if (sent.first > wanted || sent.last + 1 < range_.first + range_.count)
      return corrupt(fmt::format("the answer has bytes {} to {}, and bytes {} to {} are wanted",
                                 sent.first, sent.last, wanted, range_.first + range_.count - 1));
    skip_ = wanted - sent.first;
    return {};
  }
  Status check_size(std::uint64_t object_bytes) const {
    if (range_.object_bytes && *range_.object_bytes != object_bytes)
      return corrupt(fmt::format("it has {} bytes, and its record says {}", object_bytes,
                                 *range_.object_bytes));
    if (range_.first <= object_bytes && range_.count <= object_bytes - range_.first) return {};
    return corrupt(fmt::format("it has {} bytes, and bytes {} to {} are wanted", object_bytes,
                               range_.first, range_.first + range_.count));
  }
  Status take(std::span<const std::byte> bytes) {
    const std::uint64_t skipped = std::min<std::uint64_t>(skip_, bytes.size());
    skip_ -= skipped;
    bytes = bytes.subspan(static_cast<std::size_t>(skipped));
    bytes = bytes.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), range_.count - done_)));
    if (bytes.empty()) return {};
    done_ += bytes.size();
    return take_(bytes);
  }

 private:
  const S3Range& range_;
  const std::function<Status(std::span<const std::byte>)>& take_;
  std::uint64_t done_ = 0, skip_ = 0;
};

// Of an answer with another status than success. True: the object ends before the range.
bool ends_before(const S3Answer& answer) { return answer.status() == 416; }

Status refusal(const S3Request& request, const S3Answer& answer, const RangeReading& reading,
               const S3Client& client) {
  if (!ends_before(answer)) return client.error_of(request, answer);
  const auto sent = parse_content_range(answer.http.header("content-range"));
  const Status size = sent ? reading.check_size(sent->object_bytes) : Status();
  return (size.ok() ? corrupt("it ends before the bytes that are wanted") : size)
      .with_prefix(client.location(request.key) + ": ");
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  ContentRange range{1, 0, 0};
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const bool has_range = !take_character(text, '*');
  if (has_range && !(take_number(text, range.first) && take_character(text, '-') &&
                     take_number(text, range.last)))
    return std::nullopt;
  const bool is_sound = take_character(text, '/') && take_number(text, range.object_bytes) &&
                        text.empty() && (!has_range || range.last < range.object_bytes);
  return is_sound ? std::optional(range) : std::nullopt;
}

Result<bool> read_s3_range(S3Client& client, const S3Range& range,
                           const std::function<Status(std::span<const std::byte>)>& take) {
  RangeReading reading(range, take);
  const net::HttpSink sink{[&](const net::HttpAnswer& head) { return reading.begin(head); },
                           [&](std::span<const std::byte> bytes) { return reading.take(bytes); }};
  for (;;) {
    S3Request request;
    request.key = range.key;
    request.sink = &sink;
    if (const std::string header = reading.header(); !header.empty())
      request.headers = {{"range", header}};
    const std::uint64_t before = reading.done();
    const Result<S3Answer> answer = client.send(request);
    if (answer.ok() && answer->is_success() && reading.is_over()) return true;
    if (answer.ok() && answer->status() == 404 && answer->error.code != "NoSuchBucket")
      return false;
    if (answer.ok() && !answer->is_success()) return refusal(request, *answer, reading, client);
    const Code code = answer.status().code();
    const bool may_go_on =
        code == Code::kSuccess || code == Code::kRemoteError || code == Code::kTimeout;
    if (!may_go_on) return answer.status();
    if (reading.is_over()) return true;  // all is there; only the end of the answer was lost
    if (reading.done() == before && !answer.ok()) return answer.status();
    if (reading.done() == before)
      return corrupt(client.location(range.key) + ": the answer has no bytes");
    log_debug("{}: read on from byte {}", client.location(range.key), range.first + reading.done());
  }
}

}  // namespace sparcl::store
