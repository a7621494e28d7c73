// What an encoder has replaced leads back, to each version before, whatever part is asked for; and
// from there an update to the newest is as if both states were there.

#include "src/codec/changed_state.hpp"

#include <gtest/gtest.h>

#include "src/base/worker_pool.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

const std::vector<ArraySpec> kEarlierSpecs{
    {DataType::kBfloat16, 300001}, {DataType::kBfloat16, 7},    {DataType::kUint8, 0},
    {DataType::kBfloat16, 65536},  {DataType::kFloat32, 70000}, {DataType::kInt8, 66001},
    {DataType::kFloat64, 3}};

// Versions in a row; `newest` is brought from the first to the last, as a publisher brings its
// snapshot.
struct Versions {
  explicit Versions(std::span<const double> densities, WorkerPool* workers = nullptr) {
    states.push_back(random_state(kEarlierSpecs, 1));
    newest = states.front();
    for (const double density : densities) {
      states.push_back(changed_state(states.back(), density, Change::kUlp, states.size() + 1));
      const BlockMap map = newest.map();
      EncodeOptions options;
      options.with_state_hash = options.allow_classes = true;
      options.workers = workers;
      const auto held = newest.write();
      options.bring_forward = held;
      UpdateEncoder encoder(map, newest.read(), states.back().read(), options,
                            kernels::cpu_kernels());
      VectorSink sink;
      while (!encoder.finished()) EXPECT_TRUE(encoder.step(100000, sink).ok());
      logs.push_back(std::make_shared<ChangeLog>(encoder.replaced()));
      changed.push_back(encoder.stats().changed);
      encoder.keep_forward();
      EXPECT_TRUE(newest.arrays == states.back().arrays);
    }
  }
  ChangedState before(std::size_t version, const BlockMap& map,
                      std::span<std::byte* const> held) const {
    return {map,
            held,
            {logs.begin() + static_cast<std::ptrdiff_t>(version), logs.end()},
            kernels::cpu_kernels()};
  }

  std::vector<State> states;
  State newest;
  ChangedState::Logs logs;
  std::vector<std::uint64_t> changed;
};

constexpr double kDensities[] = {0.01, 0.0001, 0.0, 1.0, 0.3, 0.02};

void expect_every_version_back(Versions& all) {
  const BlockMap map = all.newest.map();
  const auto held = all.newest.write();
  for (std::size_t version = 0; version < all.states.size(); ++version) {
    const ChangedState earlier = all.before(version, map, held);
    for (std::uint32_t array = 0; array < kEarlierSpecs.size(); ++array) {
      const std::uint64_t count = kEarlierSpecs[array].count;
      const std::size_t width = element_bytes(kEarlierSpecs[array].datatype);
      for (const auto& [first, some] : {std::pair<std::uint64_t, std::uint64_t>{0, count},
                                        {count / 3, count / 2},
                                        {count, 0}}) {
        std::vector<std::byte> got(some * width);
        earlier.read(array, first, some, got.data());
        ASSERT_TRUE(std::equal(
            got.begin(), got.end(),
            all.states[version].arrays[array].begin() + static_cast<std::ptrdiff_t>(first * width)))
            << "version " << version << " array " << array << " from " << first;
      }
    }
  }
}

TEST(ChangedState, IsEachVersionThatWas) {
  Versions all(kDensities);
  for (std::size_t i = 0; i < all.logs.size(); ++i)
    EXPECT_EQ(all.logs[i]->changes(), all.changed[i]);
  EXPECT_EQ(all.logs[2]->size(), 0U);  // nothing changed
  expect_every_version_back(all);
}

TEST(ChangedState, IsTheSameByWorkers) {
  WorkerPool pool(3);
  Versions all(kDensities, &pool);
  expect_every_version_back(all);
}

TEST(ChangedState, LeadsToTheNewestByOneUpdate) {
  constexpr double kFew[] = {0.01, 0.01, 0.001, 0.02};
  Versions all(kFew);
  const BlockMap map = all.newest.map();
  const auto held = all.newest.write();
  const std::vector<const std::byte*> nothing(kEarlierSpecs.size(), nullptr);
  for (std::size_t version = 0; version < all.states.size(); ++version) {
    const ChangedState earlier = all.before(version, map, held);
    EncodeOptions options;
    options.with_state_hash = options.allow_classes = true;
    options.base_source = &earlier;
    UpdateEncoder encoder(map, nothing, all.newest.read(), options, kernels::cpu_kernels());
    VectorSink sink;
    while (!encoder.finished()) ASSERT_TRUE(encoder.step(100000, sink).ok());
    EXPECT_TRUE(sink.bytes() == encode(all.states[version], all.newest,
                                       [&] {
                                         EncodeOptions plain;
                                         plain.with_state_hash = plain.allow_classes = true;
                                         return plain;
                                       }())
                                    .bytes);
    State replica = all.states[version];
    ASSERT_TRUE(decode(sink.bytes(), replica, Verify::kFull).ok());
    EXPECT_TRUE(replica.arrays == all.newest.arrays);
  }
}

// An encoder that knows the changes reads nothing of the target, and writes what one that has found
// them writes.
TEST(ChangedState, KnownChangesGiveTheSameBytes) {
  WorkerPool pool(3);
  for (const double density : {0.0, 0.0001, 0.01, 0.1, 0.3, 1.0}) {
    const State base = random_state(kEarlierSpecs, 5),
                target = changed_state(base, density, Change::kUlp, 6);
    State held = target;
    const auto written = held.write();
    const BlockMap map = base.map();
    EncodeOptions back;
    back.bring_forward = written;
    UpdateEncoder finder(map, target.read(), base.read(), back, kernels::cpu_kernels());
    VectorSink nowhere;
    while (!finder.finished()) ASSERT_TRUE(finder.step(100000, nowhere).ok());
    const ChangeLog changes = finder.replaced();  // the target's values

    EncodeOptions options;
    options.with_state_hash = true;
    options.base_hash = state_hash(map, base.read(), {});
    const Encoded found = encode(base, target, options);
    options.known_changes = &changes;
    for (WorkerPool* const workers : {static_cast<WorkerPool*>(nullptr), &pool}) {
      options.workers = workers;
      const Encoded known = encode(base, base, options);
      ASSERT_TRUE(known.status.ok()) << known.status.message();
      EXPECT_TRUE(known.bytes == found.bytes) << "density " << density;
      EXPECT_EQ(known.stats.changed, found.stats.changed);
    }
  }
}

TEST(ChangedState, TheDistinctPartIsOfElementsThatChangeOnce) {
  constexpr double kAll[] = {1.0, 1.0, 1.0, 1.0};
  const Versions again(kAll);  // by units in the last place: nearly all of them each time
  EXPECT_NEAR(distinct_part(again.logs, again.newest.map().block_count()), 0.25, 0.01);
  EXPECT_EQ(distinct_part({again.logs.data(), 1}, again.newest.map().block_count()), 1.0);
  constexpr double kNone[] = {0.0, 0.0};
  const Versions same(kNone);
  EXPECT_EQ(distinct_part(same.logs, same.newest.map().block_count()), 1.0);
  EXPECT_EQ(distinct_part({}, 0), 1.0);
}

}  // namespace
}  // namespace sparcl::codec
