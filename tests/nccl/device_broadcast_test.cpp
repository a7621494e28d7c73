// Broadcasts of what changes in arrays in device memory: coded, checked and applied there, and ranks of either kind understand each
// other. Every call is held against the host's.

#include <cmath>
#include <limits>
#include <random>

#include "tests/nccl/gpu_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

using DeviceBroadcast = NcclRanks;

constexpr std::size_t kBlock = 65'536;

template <class Word>
std::vector<Word> random_words(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Word> words(count);
  for (Word& word : words) word = static_cast<Word>(random());
  return words;
}

// Most changes by one step, some by anything.
template <class Word>
std::vector<Word> changed(const std::vector<Word>& base, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<Word> target = base;
  for (Word& word : target) {
    if (uniform(random) >= density) continue;
    word = uniform(random) < 0.9 ? static_cast<Word>(word + 1) : static_cast<Word>(random());
  }
  return target;
}

// Where a rank has its arrays: so many elements behind an aligned address.
struct Place {
  bool on_device = true;
  std::size_t offset = 0;
};

template <class Word>
class Held {
 public:
  Held(const std::vector<Word>& values, const Place& place) : place_(place), count_(values.size()), host_(shifted(values)) {
    if (place_.on_device) device_.emplace(host_);
  }
  Word* get() { return (device_ ? device_->get() : host_.data()) + place_.offset; }
  std::vector<Word> read() const {
    const std::vector<Word> all = device_ ? device_->read() : host_;
    return {all.begin() + static_cast<std::ptrdiff_t>(place_.offset), all.end()};
  }

 private:
  std::vector<Word> shifted(const std::vector<Word>& values) const {
    std::vector<Word> all(place_.offset, Word{0x5a});
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  Place place_;
  std::size_t count_;
  std::vector<Word> host_;
  std::optional<OnDevice<Word>> device_;
};

template <class Word>
bool same(const std::vector<Word>& a, const std::vector<Word>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Word)) == 0);
}

sparclReport_t report_of(sparclComm_t comm) {
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
  return report;
}

std::size_t changes_between(std::size_t count, const auto& differs) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) found += differs(i) ? 1 : 0;
  return found;
}

// One call: every rank comes to the target. places: of the ranks in turn.
template <class Word>
void broadcast(ThreadRanks& party, sparclDataType_t type, const std::vector<Word>& base, const std::vector<Word>& target, int root,
               const std::vector<Place>& places, bool has_base = true) {
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const Place place = places[static_cast<std::size_t>(rank) % places.size()];
    Held<Word> weights(rank == root ? target : base, place), old(base, place);
    const sparclStream_t stream = place.on_device && !base.empty() ? stream_of(rank) : nullptr;
    const sparclResult_t result =
        sparclBroadcastDelta(weights.get(), has_base ? old.get() : nullptr, base.size(), type, root, comm, stream);
    EXPECT_TRUE(same(weights.read(), target)) << "rank " << rank;
    EXPECT_TRUE(same(old.read(), base)) << "rank " << rank;
    const sparclReport_t report = report_of(comm);
    EXPECT_EQ(report.applied, 1);
    if (has_base) {
      EXPECT_EQ(report.nnz_in, changes_between(base.size(), [&](std::size_t i) { return base[i] != target[i]; }));
    }
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
}

TEST_F(DeviceBroadcast, OfAnyRanks) {
  const auto base = random_words<std::uint16_t>(kBlock + 100, 1), target = changed(base, 0.02, 2);
  for (const int ranks : kRankCounts) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    ThreadRanks party(ranks);
    broadcast(party, sparclBfloat16, base, target, ranks - 1, {{}});
  }
}

template <class Word>
void check_type(ThreadRanks& party, sparclDataType_t type) {
  SCOPED_TRACE(testing::Message() << "type " << type);
  std::uint64_t seed = 10;
  for (const double density : {0.0, 0.01, 0.3, 1.0}) {
    const auto base = random_words<Word>(3'001, ++seed);
    broadcast(party, type, base, changed(base, density, ++seed), 0, {{}});
  }
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{33}}) {
    const auto base = random_words<Word>(count, ++seed);
    broadcast(party, type, base, changed(base, 1, ++seed), 1, {{}});
  }
}

TEST_F(DeviceBroadcast, OfAnyType) {
  ThreadRanks party(2);
  check_type<std::uint8_t>(party, sparclUint8);
  check_type<std::uint8_t>(party, sparclFloat8e4m3);
  check_type<std::uint16_t>(party, sparclBfloat16);
  check_type<std::uint16_t>(party, sparclInt16);
  check_type<std::uint32_t>(party, sparclFloat32);
  check_type<std::uint32_t>(party, sparclUint32);
  check_type<std::uint64_t>(party, sparclFloat64);
  check_type<std::uint64_t>(party, sparclInt64);
}

TEST_F(DeviceBroadcast, AroundTheBordersOfBlocks) {
  ThreadRanks party(2);
  for (const std::size_t count : {kBlock - 1, kBlock, kBlock + 1, 3 * kBlock}) {
    SCOPED_TRACE(testing::Message() << count << " elements");
    const auto base = random_words<std::uint8_t>(count, count);
    auto target = base;
    for (std::size_t block = 0; block * kBlock < count; block += 2) {  // of three the one in the middle stays as it is
      target[block * kBlock] ^= 1;
      target[std::min(count, (block + 1) * kBlock) - 1] ^= 0x80;
    }
    broadcast(party, sparclUint8, base, target, 0, {{}});
  }
}

TEST_F(DeviceBroadcast, OfNumbersThatAreNone) {
  ThreadRanks party(2);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values[2] = {{0.0F, -0.0F, nan, inf, -inf, 1, -1, nan, 5e-40F, -nan, 3},
                                        {-0.0F, 0.0F, -nan, -inf, nan, inf, -0.0F, nan, -5e-40F, 7, 3}};
  std::vector<std::uint32_t> words[2];
  for (int i = 0; i < 2; ++i) {
    for (const float value : values[i]) words[i].push_back(std::bit_cast<std::uint32_t>(value));
  }
  broadcast(party, sparclFloat32, words[0], words[1], 0, {{}});
}

// Elements and 16 bytes apart: the device's way; bytes that are no elements: by way of the host.
TEST_F(DeviceBroadcast, OfArraysThatAreNotAligned) {
  ThreadRanks party(3);
  const auto base = random_words<std::uint32_t>(4'000, 5), target = changed(base, 0.05, 6);
  broadcast(party, sparclFloat32, base, target, 1, {{true, 1}, {true, 3}, {true, 2}});
  const auto bytes = random_words<std::uint8_t>(4'000, 7), new_bytes = changed(bytes, 0.05, 8);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    Held<std::uint8_t> weights(rank == 0 ? new_bytes : bytes, {true, 1}), old(bytes, {true, 1});
    const sparclResult_t result = sparclBroadcastDelta(weights.get(), old.get(), 1'000, sparclFloat32, 0, comm, stream_of(rank));
    EXPECT_TRUE(same(weights.read(), new_bytes));
    return result;
  }),
              Each(sparclSuccess));
}

// What a rank of the host sends has other modes of blocks, too; what one on the device sends all ranks read.
TEST_F(DeviceBroadcast, RanksMayHaveArraysWhereTheyLike) {
  ThreadRanks party(4);
  const auto base = random_words<std::uint16_t>(2 * kBlock + 50, 9);
  const Place host{false}, device{};
  for (const double density : {0.0005, 0.02, 1.0}) {
    const auto target = changed(base, density, 10);
    broadcast(party, sparclBfloat16, base, target, 0, {device, host, device, host});
    broadcast(party, sparclBfloat16, base, target, 1, {device, host, device, host});
  }
}

// All is sent, and what was held does not matter.
TEST_F(DeviceBroadcast, WithoutABase) {
  ThreadRanks party(3);
  const auto base = random_words<std::uint32_t>(kBlock + 9, 11), target = random_words<std::uint32_t>(kBlock + 9, 12);
  broadcast(party, sparclFloat32, base, target, 0, {{}}, false);
  for (const int rank : {0, 1}) EXPECT_LT(bytes_copied(stream_of(rank)), 5 * target.size()) << "there, or here, and not back";
  broadcast(party, sparclFloat32, base, target, 1, {{false}, {}, {}}, false);
}

// Several chunks, and more than a segment of what arrives.
TEST_F(DeviceBroadcast, LargerThanWhatIsHeldAtOnce) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint64_t>(9 * kBlock, 40), target = random_words<std::uint64_t>(9 * kBlock, 41);
  broadcast(party, sparclFloat64, base, target, 0, {{}}, false);
  broadcast(party, sparclFloat64, base, target, 1, {{}});
}

// Then by way of the host.
TEST_F(DeviceBroadcast, WithoutMemoryOnTheDevice) {
  ThreadRanks party(3);
  const auto base = random_words<std::uint32_t>(3'000, 42), target = changed(base, 0.05, 43);
  fail_allocations(true);
  broadcast(party, sparclFloat32, base, target, 0, {{}});
  EXPECT_GE(bytes_copied(stream_of(1)), 2 * sizeof(float) * base.size()) << "there and back";
  fail_allocations(false);
  broadcast(party, sparclFloat32, base, target, 0, {{}});
}

// Coded bytes cross, and of the answer some a block.
TEST_F(DeviceBroadcast, WhatCrossesIsWhatTravels) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint16_t>(2 * kBlock, 13), target = changed(base, 0.01, 14);
  broadcast(party, sparclBfloat16, base, target, 0, {{}});
  const std::uint64_t travelled = report_of(party.comm(1)).bytes_received;
  EXPECT_LT(travelled, base.size() * 2 / 50);
  for (const int rank : {0, 1}) EXPECT_LT(bytes_copied(stream_of(rank)), travelled + 1'000) << "rank " << rank;
}

// At each level of checks.
class Verifying {
 public:
  explicit Verifying(const char* level) { setenv("SPARCL_VERIFY", level, 1); }
  ~Verifying() { unsetenv("SPARCL_VERIFY"); }
  Verifying(const Verifying&) = delete;
};

TEST_F(DeviceBroadcast, AtEachLevelOfChecks) {
  const auto base = random_words<std::uint32_t>(kBlock + 1'000, 15), target = changed(base, 0.01, 16);
  for (const char* level : {"off", "touched", "full"}) {
    SCOPED_TRACE(level);
    const Verifying verifying(level);
    ThreadRanks party(3);
    broadcast(party, sparclFloat32, base, target, 0, {{}, {}, {false}});
    broadcast(party, sparclFloat32, base, target, 2, {{}, {}, {false}});
    broadcast(party, sparclFloat32, base, target, 0, {{}, {}, {false}}, false);
  }
}

struct Outcome {
  std::vector<sparclResult_t> results;
  std::string text;
};

// Rank 1 holds something else. place: of all ranks but the root.
template <class Word>
Outcome broadcast_to_another(const std::vector<Word>& base, const std::vector<Word>& target, const std::vector<Word>& other,
                             const Place& place, const std::vector<Word>& after) {
  ThreadRanks party(3);
  Outcome outcome;
  outcome.results = party.run([&](int rank, sparclComm_t comm) {
    const Place own = rank == 0 ? Place{} : place;
    const std::vector<Word>& held = rank == 0 ? target : rank == 1 ? other : base;
    Held<Word> weights(held, own), old(base, own);
    const sparclResult_t result = sparclBroadcastDelta(weights.get(), old.get(), base.size(), sparclFloat32, 0, comm, nullptr);
    EXPECT_TRUE(same(weights.read(), after.empty() ? held : after)) << "rank " << rank;
    return result;
  });
  outcome.text = sparclGetLastError(party.comm(2));
  return outcome;
}

TEST_F(DeviceBroadcast, AWrongBaseIsTheHostsErrorAndNothingIsWritten) {
  const auto base = random_words<std::uint32_t>(3 * kBlock, 17), target = changed(base, 0.01, 18);
  for (const char* level : {"touched", "full"}) {
    const Verifying verifying(level);
    auto other = base;
    std::size_t at = 2 * kBlock;
    while (base[at] == target[at]) ++at;
    other[at] += 12;
    const Outcome found = broadcast_to_another(base, target, other, {}, {});
    const Outcome expected = broadcast_to_another(base, target, other, {false}, {});
    EXPECT_THAT(found.results, Each(sparclWrongBase));
    EXPECT_THAT(found.text, HasSubstr("block 2"));
    EXPECT_THAT(found.text, HasSubstr("rank 1"));
    EXPECT_EQ(found.text, expected.text);
  }
}

// A call that is made again: rank 1 has what it leads to.
TEST_F(DeviceBroadcast, TheTargetMayBeHeldAlready) {
  const auto base = random_words<std::uint32_t>(kBlock + 5, 19), target = changed(base, 0.01, 20);
  for (const char* level : {"touched", "full"}) {
    const Verifying verifying(level);
    EXPECT_THAT(broadcast_to_another(base, target, target, {}, target).results, Each(sparclSuccess));
  }
}

TEST_F(DeviceBroadcast, ManyCallsOneAfterTheOther) {
  ThreadRanks party(2);
  auto base = random_words<std::uint8_t>(5'000, 21);
  for (int step = 0; step < 6; ++step) {
    const auto target = changed(base, 0.1, 22 + static_cast<std::uint64_t>(step));
    broadcast(party, sparclUint8, base, target, step % 2, {{}});
    base = target;
  }
}

// Wherever a copy fails: one error on all ranks and nothing is written; or, once all have voted, the communicator ends.
TEST_F(DeviceBroadcast, ADriverThatFails) {
  const auto base = random_words<std::uint32_t>(2'000, 30), target = changed(base, 0.05, 31);
  bool has_succeeded = false;
  int refused = 0, poisoned = 0;
  for (int failing = 0; !has_succeeded && failing < 40; ++failing) {
    SCOPED_TRACE(testing::Message() << "from copy " << failing);
    ThreadRanks party(2);
    std::vector<std::vector<std::uint32_t>> held(2);
    fail_copies_from(failing);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      Held<std::uint32_t> weights(rank == 0 ? target : base, {}), old(base, {});
      const sparclResult_t result = sparclBroadcastDelta(weights.get(), old.get(), base.size(), sparclFloat32, 0, comm, nullptr);
      held[static_cast<std::size_t>(rank)] = weights.read();
      return result;
    });
    fail_copies_from(-1);
    has_succeeded = results[0] == sparclSuccess && results[1] == sparclSuccess;
    if (has_succeeded) {
      EXPECT_TRUE(same(held[1], target));
    } else if (results[1] == sparclUnhandledCudaError) {
      EXPECT_EQ(results[0], sparclUnhandledCudaError);
      EXPECT_THAT(last_error(party, 0), HasSubstr("an illegal memory access was encountered"));
      EXPECT_TRUE(same(held[1], base));
      ++refused;
    } else {
      EXPECT_NE(results[1], sparclSuccess);
      ++poisoned;
    }
  }
  EXPECT_TRUE(has_succeeded);
  EXPECT_GE(refused, 4);
  EXPECT_GE(poisoned, 1);
}

TEST_F(DeviceBroadcast, ACaptureIsRefusedAsBefore) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint32_t>(100, 32), target = changed(base, 0.5, 33);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    Held<std::uint32_t> weights(rank == 0 ? target : base, {}), old(base, {});
    if (rank == 1) begin_capture(stream_of(rank));
    const sparclResult_t result = sparclBroadcastDelta(weights.get(), old.get(), 100, sparclFloat32, 0, comm, stream_of(rank));
    if (rank == 1) {
      EXPECT_EQ(end_capture(stream_of(rank)), nullptr);
      EXPECT_TRUE(same(weights.read(), base));
    }
    return result;
  });
  EXPECT_THAT(results, Each(sparclUnhandledCudaError));
}

TEST_F(DeviceBroadcast, MemoryIsGivenBack) {
  const int before = allocations_alive();
  {
    ThreadRanks party(2);
    const auto base = random_words<std::uint32_t>(100, 34);
    broadcast(party, sparclFloat32, base, changed(base, 0.5, 35), 0, {{}});
    EXPECT_EQ(allocations_alive(), before + 4) << "each rank's, on the device and pinned";
  }
  EXPECT_EQ(allocations_alive(), before);
}

}  // namespace
}  // namespace sparcl::test
