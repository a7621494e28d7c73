// Readers of a part of a version: their tensors and slices come out as those of the whole version,
// and they read no more of an anchor than they need.
#include "src/store/stored_part.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <random>

#include "src/store/anchor_index.hpp"
#include "src/store/compaction.hpp"
#include "src/store/object_cache.hpp"
#include "src/store/retention.hpp"
#include "src/store/store_content.hpp"
#include "src/store/stored_object.hpp"
#include "src/store/version_reader.hpp"
#include "tests/store/chain_support.hpp"
#include "tests/store/forwarding_store.hpp"

namespace sparcl::store {
namespace {

using replication::HeldTensors;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Counts the bytes of anchors that are read, their indexes included.
class AnchorBytes final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override {
    if (key.starts_with("anchors/")) bytes += into.size();
    return ForwardingStore::read(key, first, into);
  }
  Result<bool> read_whole(const std::string& key, std::uint64_t of, std::uint64_t first,
                          const PieceSink& sink) override {
    if (key.starts_with("anchors/")) bytes += of - first;
    return ForwardingStore::read_whole(key, of, first, sink);
  }
  std::atomic<std::uint64_t> bytes = 0;
};

// One worker, with its tensors.
class PartReader {
 public:
  PartReader(ObjectStore& store, model::Schema schema)
      : store_(store), chain_(store_), lease_(store), reader_(chain_, lease_), tensors_(schema) {}
  ~PartReader() { lease_.release(); }

  Status restore(std::uint64_t version = 0) {
    SPARCL_ASSIGN_OR_RETURN(last_, reader_.restore(version, std::nullopt, state_of(tensors_)));
    return {};
  }
  HeldTensors& tensors() { return tensors_; }
  const RestoredVersion& last() const { return last_; }
  std::uint64_t anchor_bytes() const { return store_.bytes; }
  // Whether it has what these tensors have.
  bool is_part_of(HeldTensors& whole) {
    HeldTensors expected(tensors_.schema());
    expected.copy_from(whole);
    return content(expected) == content(tensors_);
  }

 private:
  AnchorBytes store_;
  Chain chain_;
  Lease lease_;
  VersionReader reader_;
  HeldTensors tensors_;
  RestoredVersion last_;
};

void fill(HeldTensors& tensors, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < tensors.schema().size(); ++i) {
    for (std::byte& byte : tensors.tensor(i)) byte = static_cast<std::byte>(random());
  }
}

// Slice `rank` of `ranks` equal ones along a dimension.
model::TensorSchema slice_of(const model::TensorSchema& tensor, std::size_t dimension,
                             std::uint64_t rank, std::uint64_t ranks) {
  model::TensorSchema part = tensor;
  part.slice = model::TensorSlice{std::vector<std::uint64_t>(tensor.shape.size(), 0), tensor.shape};
  part.slice->extent[dimension] /= ranks;
  part.slice->begin[dimension] = rank * part.slice->extent[dimension];
  return part;
}

class PartsOfVersions : public testing::TestWithParam<test::StoreBody> {
 protected:
  PartsOfVersions()
      : url_(test::store_url(GetParam(), folder_ / "store")),
        store_(std::move(*open_store(url_, Missing::kIsMade))) {
    options_.single_writer = GetParam() == test::StoreBody::kS3WithoutConditions;
  }
  std::unique_ptr<ChainWriter> writer(HeldTensors& trained) {
    Result<std::unique_ptr<ChainWriter>> made =
        ChainWriter::open(*store_, state_of(trained), options_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  void publish(HeldTensors& trained, std::uint64_t version) {
    const auto by = writer(trained);
    const Status status = by->publish(version);
    EXPECT_TRUE(status.ok()) << status.message();
    by->finish();
  }
  VersionRecord record(std::uint64_t number) { return *Chain(*store_).record(number); }
  void replace(const VersionRecord& changed) {
    const std::string text = serialise(changed);
    const std::array pieces{std::as_bytes(std::span(text))};
    ASSERT_TRUE(store_->replace(commit_key(changed.number), pieces).ok());
  }
  std::vector<std::byte> bytes_of(const StoredObject& object) {
    const Staging staged = *get_object(*store_, object, object.bytes);
    std::vector<std::byte> bytes(object.bytes);
    staged.copy(0, bytes.size(), bytes.data());
    return bytes;
  }
  void damage(const StoredObject& object, std::uint64_t at) {
    std::vector<std::byte> bytes = **store_->read_all(object.key, object.bytes);
    bytes[at] ^= std::byte{1};
    const std::array pieces{std::span<const std::byte>(bytes)};
    ASSERT_TRUE(store_->replace(object.key, pieces).ok());
  }
  // Record 1 names these bytes as its anchor's index.
  void set_index(const std::vector<std::byte>& bytes) {
    static int count = 0;
    Staging staged;
    staged.write(0, bytes);
    VersionRecord changed = record(1);
    changed.anchor_index = *put_object(*store_, changed.anchor->key + "-" + std::to_string(++count),
                                       staged, bytes.size());
    replace(changed);
  }

  test::TempFolder folder_;
  std::string url_;
  std::unique_ptr<ObjectStore> store_;
  WriterOptions options_{16};
};
INSTANTIATE_TEST_SUITE_P(Bodies, PartsOfVersions, testing::ValuesIn(test::store_bodies()),
                         [](const auto& body) { return test::name_of(body.param); });

// Anchors, deltas and skips lead there; each rank follows at its own pace.
TEST_P(PartsOfVersions, RanksFollowBitForBit) {
  HeldTensors trained(replication::whole_schema());
  fill(trained, 1);
  std::vector<std::unique_ptr<PartReader>> ranks;
  for (std::uint64_t rank = 0; rank < 8; ++rank) {
    model::Schema schema = replication::shard_schema(rank, 8);
    if (rank == 3) std::ranges::reverse(schema);
    ranks.push_back(std::make_unique<PartReader>(*store_, std::move(schema)));
  }
  ranks.push_back(std::make_unique<PartReader>(
      *store_, model::Schema{replication::whole_schema()[4], replication::whole_schema()[1]}));
  const auto by = writer(trained);
  for (std::uint64_t version = 1; version <= 26; ++version) {
    const Status published = by->publish(version);
    ASSERT_TRUE(published.ok()) << published.message();
    by->finish();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (version % (3 * rank + 1) != 0) continue;
      if (version % 2 == 0) fill(ranks[rank]->tensors(), version);  // anything may be there
      const Status status = ranks[rank]->restore();
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(ranks[rank]->is_part_of(trained)) << "rank " << rank << ", version " << version;
      EXPECT_TRUE(ranks[rank]->last().is_part);
      EXPECT_EQ(ranks[rank]->last().record.version, version);
    }
    trained.change(version, version % 5 == 0 ? 20 : 3000);
  }
  EXPECT_FALSE(ranks[0]->last().by_anchor);
  ASSERT_TRUE(ranks[1]->restore(17).ok());  // back
  EXPECT_EQ(ranks[1]->last().record.version, 17u);
}

TEST_P(PartsOfVersions, AnEighthIsReadOfAnAnchor) {
  const model::Schema schema{{"wide", DataType::kBfloat16, {8192, 2048}},
                             {"norm", DataType::kFloat32, {2048}}};
  HeldTensors trained(schema);
  fill(trained, 2);
  publish(trained, 1);
  const std::uint64_t all = record(1).anchor->bytes;
  for (const std::uint64_t rank : {0, 5}) {
    PartReader reader(*store_, {slice_of(schema[0], 0, rank, 8), schema[1]});
    ASSERT_TRUE(reader.restore().ok());
    EXPECT_TRUE(reader.is_part_of(trained));
    EXPECT_TRUE(reader.last().by_anchor);
    EXPECT_LT(reader.anchor_bytes(), all / 8 + 5 * model::kLeafBytes);
    EXPECT_EQ(reader.last().object_bytes, reader.anchor_bytes());
  }
  PartReader columns(*store_, {slice_of(schema[0], 1, 5, 8)});
  ASSERT_TRUE(columns.restore().ok());
  EXPECT_TRUE(columns.is_part_of(trained));
  PartReader small(*store_, {schema[1]});
  ASSERT_TRUE(small.restore().ok());
  EXPECT_TRUE(small.is_part_of(trained));
  EXPECT_LT(small.anchor_bytes(), 4 * model::kLeafBytes);
}

const model::Schema kTwoTensors{{"first", DataType::kBfloat16, {2048, 1024}},
                                {"second", DataType::kBfloat16, {2048, 1024}}};

TEST_P(PartsOfVersions, DamageIsFoundWhereItIsRead) {
  HeldTensors trained(kTwoTensors);
  fill(trained, 3);
  publish(trained, 1);
  const StoredObject anchor = *record(1).anchor;
  damage(anchor, anchor.bytes - model::kLeafBytes);
  PartReader first(*store_, {slice_of(kTwoTensors[0], 0, 0, 4)}), second(*store_, {kTwoTensors[1]});
  ASSERT_TRUE(first.restore().ok());
  EXPECT_TRUE(first.is_part_of(trained));
  fill(second.tensors(), 4);
  const auto before = content(second.tensors());
  const Status status = second.restore();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr(anchor.key));
  EXPECT_EQ(content(second.tensors()), before);

  damage(anchor, anchor.bytes - model::kLeafBytes);  // mended
  ASSERT_TRUE(second.restore().ok());
  EXPECT_TRUE(second.is_part_of(trained));

  trained.change(1, 5000);
  publish(trained, 2);
  const StoredObject delta = *record(2).delta;
  damage(delta, delta.bytes / 2);
  const auto held = content(second.tensors());
  EXPECT_EQ(second.restore().code(), Code::kCorrupt);
  EXPECT_EQ(content(second.tensors()), held);
  damage(delta, delta.bytes / 2);
  ASSERT_TRUE(second.restore().ok());
  EXPECT_TRUE(second.is_part_of(trained));
  EXPECT_FALSE(second.last().by_anchor);  // it holds version 1 still
}

TEST_P(PartsOfVersions, OtherPathsAreTakenAroundDamage) {
  options_.anchor_every = 4;
  HeldTensors trained(kTwoTensors);
  fill(trained, 5);
  const auto by = writer(trained);
  for (std::uint64_t version = 1; version <= 8; ++version) {
    trained.change(version, 5000);
    ASSERT_TRUE(by->publish(version).ok());
    by->finish();
  }
  const VersionRecord newest = record(8);
  const Shortcut anchor = **Chain(*store_).shortcut(newest.newest_anchor, 0);
  ASSERT_GT(anchor.number, 1u);
  damage(anchor.object, 100);  // of its header, which each reader reads
  PartReader reader(*store_, {kTwoTensors[1]});
  ASSERT_TRUE(reader.restore().ok());
  EXPECT_TRUE(reader.is_part_of(trained));
}

TEST_P(PartsOfVersions, WithoutASoundIndexTheWholeAnchorIsRead) {
  HeldTensors trained(kTwoTensors);
  fill(trained, 6);
  publish(trained, 1);
  const VersionRecord good = record(1);
  const std::vector<std::byte> index = bytes_of(*good.anchor_index);
  const auto expect_restored = [&](bool reads_all, const std::string& what) {
    PartReader reader(*store_, {slice_of(kTwoTensors[0], 0, 1, 4)});
    const Status status = reader.restore();
    ASSERT_TRUE(status.ok()) << what << status.message();
    EXPECT_TRUE(reader.is_part_of(trained)) << what;
    EXPECT_EQ(reader.anchor_bytes() >= good.anchor->bytes, reads_all) << what;
  };
  expect_restored(false, "sound: ");
  VersionRecord old = good;
  old.anchor_index.reset();
  replace(old);
  expect_restored(true, "old record: ");
  replace(good);
  damage(*good.anchor_index, 200);
  expect_restored(true, "damaged: ");
  ASSERT_TRUE(store_->remove(good.anchor_index->key).ok());
  expect_restored(true, "missing: ");

  // As a hostile publisher would write it, under its own digest.
  set_index({});
  expect_restored(true, "empty: ");
  std::vector<std::byte> longer = index;
  longer.push_back(std::byte{0});
  set_index(longer);
  expect_restored(true, "longer: ");
  for (const std::size_t at : {0u, 4u, 15u, 16u, 23u, 24u}) {
    std::vector<std::byte> lying = index;
    lying[at] ^= std::byte{0x7f};
    set_index(lying);
    expect_restored(true, "byte " + std::to_string(at) + ": ");
  }
  for (std::size_t at = 24 + 32 * model::leaf_count(good.anchor->bytes); at < index.size();
       at += 23) {  // of rows of 20 bytes: each of their fields
    std::vector<std::byte> lying = index;
    lying[at] ^= std::byte{0x81};
    set_index(lying);
    PartReader reader(*store_, {kTwoTensors[0], slice_of(kTwoTensors[1], 0, 3, 4)});
    const Status status = reader.restore();
    ASSERT_TRUE(status.ok()) << at << status.message();
    EXPECT_TRUE(reader.is_part_of(trained)) << at;
  }
  VersionRecord large = good;
  large.anchor_index->bytes = std::uint64_t{1} << 60;
  replace(large);
  expect_restored(true, "large: ");
}

TEST_P(PartsOfVersions, TensorsThatAVersionLacksAreNamed) {
  HeldTensors trained(kTwoTensors);
  publish(trained, 1);
  const auto refusal = [&](const model::TensorSchema& tensor) {
    PartReader reader(*store_, {kTwoTensors[0], tensor});
    const Status status = reader.restore();
    EXPECT_EQ(status.code(), Code::kMismatch);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({"third", DataType::kBfloat16, {2048, 1024}}),
              HasSubstr("there is no tensor 'third'"));
  EXPECT_THAT(refusal({"second", DataType::kFloat32, {2048, 1024}}), HasSubstr("tensor 'second'"));
  model::TensorSchema other = slice_of({"second", DataType::kBfloat16, {4096, 1024}}, 0, 1, 2);
  EXPECT_THAT(refusal(other), HasSubstr("tensor 'second'"));
}

TEST_P(PartsOfVersions, ADeadStoreLeavesWhatIsHeld) {
  HeldTensors trained(kTwoTensors);
  fill(trained, 7);
  publish(trained, 1);
  FailingStore failing(*store_);
  PartReader reader(failing, {kTwoTensors[1]});
  const auto before = content(reader.tensors());
  int failures = 0;
  for (int calls = 0; calls < 100; ++calls) {
    failing.calls_left = calls;
    const Status status = reader.restore();
    failing.calls_left = -1;
    if (status.ok()) break;
    ++failures;
    EXPECT_EQ(content(reader.tensors()), before);
  }
  EXPECT_GT(failures, 4);
  EXPECT_TRUE(reader.is_part_of(trained));
}

TEST_P(PartsOfVersions, WhatAHostHasFetchedIsNotReadAgain) {
  HeldTensors trained(kTwoTensors);
  fill(trained, 8);
  publish(trained, 1);
  AnchorBytes counting(*store_);
  counting.set_cache(*ObjectCache::open(folder_ / "cache", std::uint64_t{1} << 30));
  HeldTensors whole(kTwoTensors);
  Chain chain(counting);
  const VersionRecord target = **chain.newest();
  ASSERT_TRUE(
      restore(chain, target, *steps_to(chain, target, {}), std::nullopt, state_of(whole)).ok());
  counting.bytes = 0;
  Lease lease(counting);
  VersionReader reader(chain, lease);
  HeldTensors part({slice_of(kTwoTensors[1], 0, 1, 2)});
  ASSERT_TRUE(reader.restore(0, std::nullopt, state_of(part)).ok());
  HeldTensors expected(part.schema());
  expected.copy_from(trained);
  EXPECT_EQ(content(part), content(expected));
  EXPECT_LT(counting.bytes, std::uint64_t{64} << 10);  // the index
  lease.release();
}

TEST_P(PartsOfVersions, IndexesAreCopiedCheckedPrunedAndMade) {
  HeldTensors trained({{"only", DataType::kFloat32, {100'000}}});
  fill(trained, 9);
  options_.anchor_every = 1000;
  const auto by = writer(trained);
  for (std::uint64_t version = 1; version <= 9; ++version) {
    trained.change(version, 2000);
    ASSERT_TRUE(by->publish(version).ok());
  }
  by->finish();
  Chain chain(*store_);
  ASSERT_TRUE(compact(chain, kernels::cpu_kernels()).ok());
  const Shortcut made = **chain.shortcut(9, 0);
  ASSERT_TRUE(made.index);
  const auto there = [](ObjectStore& in, const std::string& key) {
    return (*in.look(key)).has_value();
  };
  EXPECT_TRUE(there(*store_, made.index->key));

  auto other = std::move(*open_store("file:" + folder_ / "copy", Missing::kIsMade));
  Chain copy(*other);
  ASSERT_TRUE(copy_content(chain, copy).ok());
  EXPECT_TRUE(there(*other, made.index->key));
  EXPECT_TRUE(there(*other, record(1).anchor_index->key));

  damage(*made.index, 50);
  std::vector<std::string> damaged;
  const auto note = [&](const Damage& each) { damaged.push_back(each.location); };
  ASSERT_TRUE(verify_content(chain, nullptr, note).ok());
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_THAT(damaged[0], HasSubstr(made.index->key));
  const VerifyReport repaired = *verify_content(chain, &copy, note);
  EXPECT_EQ(repaired.repaired, 1u);
  EXPECT_EQ(verify_content(chain, nullptr, note)->damaged, 0u);

  const std::string first = record(1).anchor_index->key;
  Keep keep;
  keep.versions = 1;
  keep.lease_s = 0;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(prune(chain, keep).ok());
  EXPECT_FALSE(there(*store_, first));
  EXPECT_TRUE(there(*store_, made.index->key));
  PartReader reader(*store_, {slice_of(trained.schema()[0], 0, 1, 4)});
  ASSERT_TRUE(reader.restore().ok());
  EXPECT_TRUE(reader.is_part_of(trained));
}

}  // namespace
}  // namespace sparcl::store
