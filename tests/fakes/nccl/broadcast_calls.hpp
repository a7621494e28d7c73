#pragma once
// Broadcasts of ranks that have their arrays where they like.

#include <algorithm>
#include <optional>
#include <random>

#include "tests/fakes/nccl/gpu_ranks.hpp"

namespace sparcl::test {

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

// Where a rank has its arrays: so many elements behind an aligned address; and the GPU of its
// stream.
struct Place {
  bool on_device = true;
  std::size_t offset = 0;
  int gpu = 0;
  int stream_gpu = gpu;
};

template <class Word>
class Held {
 public:
  Held(const std::vector<Word>& values, const Place& place)
      : place_(place), count_(values.size()), host_(shifted(values)) {
    if (place_.on_device) device_.emplace(host_, place_.gpu);
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
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Word)) == 0);
}

inline sparclReport_t report_of(sparclComm_t comm) {
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
  return report;
}

inline std::size_t changes_between(std::size_t count, const auto& differs) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) found += differs(i) ? 1 : 0;
  return found;
}

// How arrays in device memory go: coded, checked and written there; by way of the host; or, of a
// receiver, so from where it has met what the device does not read.
enum class Goes { kOnDevice, kByHost, kByHostLater };

// What tells them apart is what is copied out of the arrays.
template <class Word>
void expect_goes(Goes goes, bool is_root, bool has_base, const Word* weights, const Word* base) {
  const bool is_there = goes == Goes::kOnDevice || (is_root && goes == Goes::kByHostLater);
  if (is_root && !has_base) {  // all of it is sent
    EXPECT_EQ(copies_out_of(weights, true) == 0, is_there);
    return;
  }
  EXPECT_EQ(copies_out_of(weights) == 0, is_there) << (is_root ? "the root" : "a receiver");
  if (is_root) {
    EXPECT_EQ(copies_out_of(base) == 0, is_there);
  }
  if (goes == Goes::kByHostLater) {
    EXPECT_EQ(copies_out_of(weights, true), 0);
  }
}

// One call: every rank comes to the target. places: of the ranks in turn; those on the device go as
// is said.
template <class Word>
void broadcast(ThreadRanks& party, sparclDataType_t type, const std::vector<Word>& base,
               const std::vector<Word>& target, int root, const std::vector<Place>& places,
               bool has_base = true, Goes goes = Goes::kOnDevice) {
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const Place place = places[static_cast<std::size_t>(rank) % places.size()];
    Held<Word> weights(rank == root ? target : base, place), old(base, place);
    const sparclStream_t stream =
        place.on_device && !base.empty() ? stream_of(rank, place.stream_gpu) : nullptr;
    if (place.stream_gpu > 0) put_on_gpu(stream, place.stream_gpu);
    const sparclResult_t result =
        sparclBroadcastDelta(weights.get(), has_base ? old.get() : nullptr, base.size(), type, root,
                             nullptr, comm, stream);
    EXPECT_TRUE(same(weights.read(), target)) << "rank " << rank;
    if (place.on_device && !base.empty())
      expect_goes(goes, rank == root, has_base, weights.get(), old.get());
    EXPECT_TRUE(same(old.read(), base)) << "rank " << rank;
    const sparclReport_t report = report_of(comm);
    EXPECT_EQ(report.applied, 1);
    if (has_base) {
      EXPECT_EQ(report.nnz_in,
                changes_between(base.size(), [&](std::size_t i) { return base[i] != target[i]; }));
    }
    return result;
  });
  EXPECT_THAT(results, testing::Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
}

// At each level of checks.
struct Verifying : Setting {
  explicit Verifying(const char* level) : Setting("SPARCL_VERIFY", level) {}
};

}  // namespace sparcl::test
