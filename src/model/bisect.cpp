#include "src/model/bisect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "src/base/bytes.hpp"

namespace sparcl::model {
namespace {

// A question: version, schema hash, number of blocks, number of ranges. For each range it has the
// first block, the count and the sums of up to 64 children that begin before the last block. An
// answer: 64 bits for each range; bit i: child i differs.
constexpr std::uint8_t kMessageVersion = 0;
constexpr std::uint64_t kFanOut = 64;
constexpr std::uint64_t kMaxCount = std::uint64_t{1}
                                    << 60;  // a power of 64; a state has fewer blocks

std::uint64_t children_of(const SuspectRange& range, std::uint64_t block_count) {
  const std::uint64_t child = range.count / kFanOut;
  const std::uint64_t blocks = std::min(range.count, block_count - range.first);
  return blocks / child + (blocks % child != 0);
}

Hash128 child_sum(const BlockSums& sums, const SuspectRange& range, std::uint64_t i) {
  const std::uint64_t child = range.count / kFanOut;
  const std::uint64_t first = range.first + i * child;
  return sums.of(first, std::min(child, sums.block_count() - first));
}

bool is_range(const SuspectRange& range, std::uint64_t block_count) {
  const bool is_power = range.count >= kFanOut && range.count <= kMaxCount &&
                        (range.count & (range.count - 1)) == 0 &&
                        std::countr_zero(range.count) % 6 == 0;
  return is_power && range.first % range.count == 0 && range.first < block_count;
}

Status no_question(std::string_view what) {
  return Status(Code::kCorrupt, fmt::format("a question for differing blocks {}", what));
}

Status answer_range(const BlockSums& own, ByteReader& reader, std::uint64_t& bits) {
  SuspectRange range;
  if (!reader.read(range.first) || !reader.read(range.count))
    return no_question("ends inside a range");
  if (!is_range(range, own.block_count()))
    return no_question("has a range that is none of this state's blocks");
  bits = 0;
  for (std::uint64_t i = 0; i < children_of(range, own.block_count()); ++i) {
    Hash128 sum;
    if (!reader.read(sum.low) || !reader.read(sum.high))
      return no_question("ends inside the sums of a range");
    if (sum != child_sum(own, range, i)) bits |= std::uint64_t{1} << i;
  }
  return {};
}

}  // namespace

Suspects all_blocks(const BlockSums& own) {
  if (own.block_count() == 0) return {};
  std::uint64_t count = kFanOut;
  while (count < own.block_count()) count *= kFanOut;
  return {{0, count}};
}

bool settled(const Suspects& suspects) {
  return std::ranges::all_of(suspects, [](const SuspectRange& range) { return range.count == 1; });
}

std::vector<std::byte> bisect_question(const BlockSums& own, const Suspects& suspects) {
  ByteWriter ranges;
  std::uint32_t count = 0;
  for (const SuspectRange& range : suspects) {
    if (range.count == 1 || count == kBisectRanges) continue;
    ++count;
    ranges.write(range.first);
    ranges.write(range.count);
    for (std::uint64_t i = 0; i < children_of(range, own.block_count()); ++i) {
      const Hash128 sum = child_sum(own, range, i);
      ranges.write(sum.low);
      ranges.write(sum.high);
    }
  }
  ByteWriter question;
  question.write(kMessageVersion);
  question.write(own.schema_hash().low);
  question.write(own.schema_hash().high);
  question.write(own.block_count());
  question.write(count);
  question.write_bytes(ranges.bytes());
  return question.take();
}

Result<std::vector<std::byte>> bisect_answer(const BlockSums& own,
                                             std::span<const std::byte> question) {
  ByteReader reader(question);
  std::uint8_t version = 0;
  Hash128 schema;
  std::uint64_t block_count = 0;
  std::uint32_t range_count = 0;
  if (!reader.read(version) || version != kMessageVersion)
    return no_question("has another version, or none");
  if (!reader.read(schema.low) || !reader.read(schema.high) || !reader.read(block_count) ||
      !reader.read(range_count))
    return no_question("ends inside its head");
  if (schema != own.schema_hash() || block_count != own.block_count()) {
    return Status(Code::kMismatch, fmt::format("a question for differing blocks of a state with "
                                               "schema {} and {} blocks; held are {} and {}",
                                               to_hex(schema), block_count,
                                               to_hex(own.schema_hash()), own.block_count()));
  }
  if (range_count > kBisectRanges) return no_question("asks for too many ranges");
  ByteWriter answer;
  for (std::uint32_t i = 0; i < range_count; ++i) {
    std::uint64_t bits = 0;
    SPARCL_RETURN_IF_ERROR(answer_range(own, reader, bits));
    answer.write(bits);
  }
  if (reader.remaining() > 0) return no_question("goes on after its ranges");
  return answer.take();
}

Status bisect_narrow(Suspects& suspects, std::uint64_t block_count,
                     std::span<const std::byte> answer) {
  ByteReader reader(answer);
  Suspects narrowed;
  std::size_t asked = 0;
  for (const SuspectRange& range : suspects) {
    if (range.count == 1 || asked == kBisectRanges) {
      narrowed.push_back(range);
      continue;
    }
    ++asked;
    std::uint64_t bits = 0;
    if (!reader.read(bits))
      return Status(Code::kCorrupt,
                    "an answer about differing blocks is shorter than its question");
    const std::uint64_t children = children_of(range, block_count);
    if (children < kFanOut && bits >> children != 0)
      return Status(Code::kCorrupt,
                    "an answer about differing blocks names blocks that there are not");
    for (std::uint64_t i = 0; i < children; ++i) {
      if ((bits >> i & 1) != 0)
        narrowed.push_back({range.first + i * (range.count / kFanOut), range.count / kFanOut});
    }
  }
  if (reader.remaining() > 0)
    return Status(Code::kCorrupt, "an answer about differing blocks is longer than its question");
  suspects = std::move(narrowed);
  return {};
}

}  // namespace sparcl::model
