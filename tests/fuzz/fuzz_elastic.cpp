// What workers, aggregators and their folders say: messages and rounds of the log are refused, or
// written and read again as the same; bytes of a contribution are refused, or a part whose entries
// can be summed. The first byte of an input says which.

#include <algorithm>

#include "src/base/buffer_pool.hpp"
#include "src/elastic/aggregator_messages.hpp"
#include "src/elastic/contribution_bytes.hpp"
#include "src/elastic/round_log.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

using namespace elastic;

enum class What : unsigned {
  kEnroll,
  kEnrolled,
  kNonce,
  kJoin,
  kOffered,
  kWanted,
  kFate,
  kMember,
  kTurnedAway,
  kGiven,
  kVerdict,
  kCollect,
  kSubtree,
  kCollected,
  kWithdrawn,
  kRound,
  kBytes,
  kLast
};

constexpr std::uint64_t kFuzzedCount = 100'000;  // elements

sparse::BlockRun fuzzed_run() {
  sparse::BlockRun run;
  run.blocks = 2;
  return run;
}

template <class Parse>
void expect_same_message(std::span<const std::byte> content, Parse&& parse) {
  const auto message = parse(content);
  if (!message.ok()) return require(message.status().code() == Code::kCorrupt, "it is Corrupt");
  if constexpr (requires { message->protocol; }) {
    if (message->protocol != kWorkerProtocol) return;
  }
  const auto written = serialise(*message);
  require(written.size() == content.size(), "one message has one length");
  const auto again = parse(written);
  require(again.ok() && serialise(*again) == written, "what is written is read as it was");
}

void expect_same_round(std::span<const std::byte> content) {
  const std::optional<LoggedRound> round = parse_logged(content);
  if (!round) return;
  const std::vector<std::byte> written = serialise(*round);
  require(std::ranges::equal(written, content), "one round has one form");
}

void run_bytes(std::span<const std::byte> input) {
  if (input.empty()) return;
  Offered offered;
  const unsigned form = std::to_integer<unsigned>(input[0]) % 5;
  offered.is_narrow = form == 4;
  offered.form = form < 4 ? static_cast<sparse::ValueForm>(form) : sparse::ValueForm::kUnmodified;
  const std::span<const std::byte> content = input.subspan(1);
  const Buffer bytes = Buffer::allocate(content.size());
  std::ranges::copy(content, bytes.data());
  offered.bytes = bytes.size();
  offered.digest = *digest_of(bytes.bytes());
  BufferPool buffers(0);
  const kernels::KernelSet& kernels = kernels::reference_kernels();
  const Result<Buffer> part = unpack(buffers, kernels, fuzzed_run(), kFuzzedCount, offered, bytes);
  if (!part.ok()) return require(part.status().code() == Code::kCorrupt, "it is Corrupt");
  const Entries entries = entries_of(kernels, fuzzed_run(), part->bytes(), value_type(offered));
  require(
      std::ranges::adjacent_find(entries.indices, std::greater_equal<>()) == entries.indices.end(),
      "indices ascend");
  require(entries.indices.empty() || entries.indices.back() < kFuzzedCount, "indices are elements");
}

void run(std::span<const std::byte> input) {
  if (input.empty()) return;
  const std::span<const std::byte> content = input.subspan(1);
  switch (
      static_cast<What>(std::to_integer<unsigned>(input[0]) % static_cast<unsigned>(What::kLast))) {
    case What::kEnroll:
      return expect_same_message(content, parse_enroll);
    case What::kEnrolled:
      return expect_same_message(content, parse_enrolled);
    case What::kNonce:
      return expect_same_message(content, parse_nonce);
    case What::kJoin:
      return expect_same_message(content, parse_join);
    case What::kOffered:
      return expect_same_message(content, parse_offered);
    case What::kWanted:
      return expect_same_message(content, parse_wanted);
    case What::kFate:
      return expect_same_message(content, parse_fate);
    case What::kMember:
      return expect_same_message(content, parse_member);
    case What::kTurnedAway:
      return expect_same_message(content, parse_turned_away);
    case What::kGiven:
      return expect_same_message(content, parse_given);
    case What::kVerdict:
      return expect_same_message(content, parse_verdict);
    case What::kCollect:
      return expect_same_message(content, parse_collect);
    case What::kSubtree:
      return expect_same_message(content, parse_subtree);
    case What::kCollected:
      return expect_same_message(content, parse_collected);
    case What::kWithdrawn:
      return expect_same_message(content, parse_withdrawn);
    case What::kRound:
      return expect_same_round(content);
    default:
      return run_bytes(content);
  }
}

Bytes seed_of(What what, std::span<const std::byte> content) {
  Bytes bytes{static_cast<std::byte>(what)};
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

Bytes packed_seed(sparse::Wire wire) {
  const kernels::KernelSet& kernels = kernels::reference_kernels();
  BufferPool buffers(0);
  std::vector<std::uint64_t> indices;
  std::vector<float> values;
  for (std::uint64_t i = 0; i < 500; ++i) {
    indices.push_back(i * i % 199 + i * 199);
    values.push_back(static_cast<float>(i % 13) - 6.5F);
  }
  const sparse::WireType type = sparse::wire_type(DataType::kFloat32, wire);
  std::vector<std::byte> sent(values.size() * element_bytes(type.sent));
  sparse::round_to_wire(kernels, type, reinterpret_cast<const std::byte*>(values.data()),
                        values.size(), sent.data());
  Result<Packed> packed = pack(buffers, kernels, fuzzed_run(), type, indices, sent.data());
  const auto form = static_cast<unsigned>(packed->offered.form);
  Bytes bytes{static_cast<std::byte>(packed->offered.is_narrow ? 4 : form)};
  std::ranges::copy(packed->bytes.bytes(), std::back_inserter(bytes));
  return seed_of(What::kBytes, bytes);
}

std::vector<Bytes> seeds() {
  LoggedRound round{7, 3, 2.5, true, {{1, 6}, {2, 7}}, Buffer::allocate(40), {}};
  std::ranges::fill(round.sum.bytes(), std::byte{1});
  std::vector<Bytes> all{
      seed_of(What::kEnroll, serialise(Enroll{kWorkerProtocol, "m", {1, 2}, 3, 5000, "host h"})),
      seed_of(What::kEnrolled, serialise(Enrolled{kWorkerProtocol, 4, 5000, "h", "h:4711"})),
      seed_of(What::kNonce, serialise(NonceTold{})),
      seed_of(What::kJoin, serialise(Join{3, {{}}})),
      seed_of(What::kOffered, serialise(Offered{4, 0.5, 100, sparse::ValueForm::kScaled2})),
      seed_of(What::kOffered,
              serialise(Offered{4, 0.5, 100, sparse::ValueForm::kUnmodified, true, {}, {{}}})),
      seed_of(What::kWanted, serialise(Wanted{4})),
      seed_of(What::kFate, serialise(FateTold{4, aggregate::Answer::Kind::kRefused, 5, "why"})),
      seed_of(What::kMember,
              serialise(MemberTold{3, MemberTold::State::kResting, {4, 5}, "host h"})),
      seed_of(What::kTurnedAway, serialise(TurnedAway{3, Code::kInvalidUsage, "why"})),
      seed_of(What::kGiven, serialise(GivenTold{3, {2.25, 1}, 10, {4, 0.5, 100}})),
      seed_of(What::kVerdict,
              serialise(
                  Verdict{3, true, 5, 0.5F, 0.25F, {4, aggregate::Answer::Kind::kListed, 5, ""}})),
      seed_of(What::kCollect,
              serialise(Collect{4, true, false, 2.5, {{1, {2, 9}}}, {{{3, 4}, 0.5F}}})),
      seed_of(What::kSubtree, serialise(SubtreeTold{4, true, 1, {8, 3}, 100})),
      seed_of(What::kCollected, serialise(Collected{4})),
      seed_of(What::kWithdrawn, serialise(Withdrawn{{3, 4}})),
      seed_of(What::kRound, serialise(round)),
      seed_of(What::kRound, serialise(LoggedRound{}))};
  for (const sparse::Wire wire :
       {sparse::Wire::kSameType, sparse::Wire::kBfloat16, sparse::Wire::kScaled8,
        sparse::Wire::kScaled4, sparse::Wire::kScaled2})
    all.push_back(packed_seed(wire));
  return all;
}

const Registration registration({"elastic", run, seeds, nullptr});

}  // namespace
}  // namespace sparcl::fuzz
