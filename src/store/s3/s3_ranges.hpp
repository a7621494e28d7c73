#pragma once
// Reads a large object in ranges, over several connections at once: one carries some 100 MB/s.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "src/store/s3/s3_client.hpp"

namespace sparcl::store {

struct S3RangePlan {
  std::uint64_t range_bytes = std::uint64_t{8} << 20;  // of one request
  unsigned connections = 4;                            // each has a range in memory
};

// The bytes from `first` on of an object of object_bytes, in order. As read_s3_range().
Result<bool> read_s3_ranges(S3Client& client, const std::string& key, std::uint64_t first,
                            std::uint64_t object_bytes, const S3RangePlan& plan,
                            const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace sparcl::store
