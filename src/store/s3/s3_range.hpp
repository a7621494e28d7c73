#pragma once
// Reads bytes of an object in order, over as many requests as a poor connection needs.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/store/s3/s3_client.hpp"

namespace sparcl::store {

struct S3Range {
  std::string key;  // with the prefix
  std::uint64_t first = 0, count = 0;
  // Of the object; nullopt: any that has the range.
  std::optional<std::uint64_t> object_bytes;
};

// False: there is no such object. Corrupt: it has another size, or ends before the range does. A
// request that is cut goes on in another one where it ended, as long as bytes come.
Result<bool> read_s3_range(S3Client& client, const S3Range& range,
                           const std::function<Status(std::span<const std::byte>)>& take);

// "bytes 3-6/10". nullopt: it is none. Of status 416, "bytes */10": last is before first.
struct ContentRange {
  std::uint64_t first = 0, last = 0, object_bytes = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace sparcl::store
