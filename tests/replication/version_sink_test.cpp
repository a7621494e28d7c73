// The contract VersionSink, on every body: the sessions of replicas that hold the whole model,
// those of replicas that hold parts of it, and a store.

#include "src/model/version_sink.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "src/model/snapshot.hpp"
#include "src/replication/feed.hpp"
#include "src/store/address/open_store.hpp"
#include "src/store/store_sink.hpp"
#include "src/store/version_reader.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::replication {
namespace {

enum class SinkBody { kWholeModel, kParts, kStore };

store::ChainState chain_state_of(const ReplicatedState& view) {
  store::ChainState state;
  state.map = view.map;
  state.schema = view.schema;
  state.schema_hash = view.schema_hash;
  state.arrays = view.arrays;
  state.kernels = view.kernels;
  return state;
}

// A publisher's tensors, its snapshot of the newest version, and a sink of its versions.
class VersionSinkContract : public testing::TestWithParam<SinkBody> {
 protected:
  VersionSinkContract() {
    issuer.model_id = "m";
    issuer.epoch = 5;
    whole = std::make_unique<Feed>(issuer, tensors.view(), Feed::Options{});
    if (GetParam() == SinkBody::kStore) open_store();
    if (GetParam() != SinkBody::kParts) return;
    Result<std::shared_ptr<Feed>> made = Feed::of_parts(issuer, tensors.view(), tensors.schema(),
                                                        model::serialise(shard_schema(0, 2)), {});
    EXPECT_TRUE(made.ok()) << made.status().message();
    parts = std::move(*made);
  }
  Feed& body() { return parts != nullptr ? *parts : *whole; }
  model::VersionSink& sink() {
    return stored != nullptr ? static_cast<model::VersionSink&>(*stored) : body();
  }
  bool is_feed() const { return stored == nullptr; }

  std::unique_ptr<store::ObjectStore> open_objects() const {
    return std::move(*store::open_store("file:" + (folder / "store"), store::Missing::kIsMade));
  }
  void open_store() {
    Result<std::unique_ptr<store::StoreSink>> made =
        store::StoreSink::create(open_objects(), chain_state_of(tensors.view()), {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    stored = std::move(*made);
  }
  // What a reader of the store that begins gets.
  void expect_stored(std::uint64_t version) {
    ASSERT_TRUE(stored->wait(version, 60).ok());
    const std::unique_ptr<store::ObjectStore> objects = open_objects();
    store::Chain chain(*objects);
    store::Lease lease(*objects, store::kLeaseSeconds);
    HeldTensors read(whole_schema());
    const Result<store::RestoredVersion> restored =
        store::VersionReader(chain, lease).restore(0, std::nullopt, chain_state_of(read.view()));
    lease.release();
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    EXPECT_EQ(restored->record.version, version);
    EXPECT_EQ(read.hash(), tensors.hash());
  }
  // A publisher writes each edition to all of its sinks.
  void write_all(Edition edition) {
    if (stored == nullptr) return sink().write(std::move(edition));
    const model::VersionEdition copy{edition.delta, edition.label, edition.replaced};
    whole->write(std::move(edition));
    sink().write(copy);
  }

  Edition make_first(std::uint64_t version) {
    EXPECT_TRUE(snapshot.take(*tensors.view().map, tensors.view().arrays).ok());
    return std::move(*body().first_edition(version, snapshot.arrays()));
  }
  void write_first(std::uint64_t version) {
    Edition edition = make_first(version);
    if (parts != nullptr)
      whole->write(std::move(*whole->first_edition(version, snapshot.arrays())));
    write_all(std::move(edition));
  }
  // The snapshot is brought forward to the tensors.
  Edition make_next(std::uint64_t version, std::uint64_t every = 50) {
    tensors.change(version, every);
    const ReplicatedState view = tensors.view();
    Result<Edition> edition = whole->encode(version, snapshot.arrays(), {view.readable()}, {});
    EXPECT_TRUE(edition.ok()) << edition.status().message();
    edition->written->keep_forward();
    if (parts == nullptr) return std::move(*edition);
    const ChangeLogRef replaced = edition->replaced;
    whole->write(std::move(*edition));
    parts->bring_forward(replaced);
    parts->fall_behind();
    return {};
  }
  void write_next(std::uint64_t version) {
    Edition edition = make_next(version);
    if (parts == nullptr) return write_all(std::move(edition));
    catch_up();
  }
  // Beside publish(): what a publisher's thread does.
  void catch_up() {
    for (int i = 0; i < 1000 && parts->wants_work(); ++i) {
      if (!parts->has_begun()) parts->begin_work(whole->store(), snapshot.arrays());
      while (parts->work()) {
      }
    }
    EXPECT_FALSE(parts->wants_work());
  }
  // What a replica that holds `held` gets next.
  UpdateStore::Step step_from(const HeldVersion& held) { return body().store().step_from(held); }

  HeldTensors tensors{whole_schema()};
  model::Snapshot snapshot;
  Issuer issuer;
  std::unique_ptr<Feed> whole;
  std::shared_ptr<Feed> parts;
  test::TempFolder folder;
  std::unique_ptr<store::StoreSink> stored;
};

TEST_P(VersionSinkContract, HoldsNothingAtFirst) { EXPECT_FALSE(sink().newest()); }

TEST_P(VersionSinkContract, TheFirstEditionIsTheNewestVersion) {
  write_first(1);
  ASSERT_TRUE(sink().newest());
  EXPECT_EQ(sink().newest()->version, 1U);
  EXPECT_NE(sink().newest()->hash, Hash128());
}

TEST_P(VersionSinkContract, EachEditionLeadsOnFromTheOneBefore) {
  write_first(1);
  HeldVersion held = *sink().newest();
  const HeldVersion first = held;
  for (const std::uint64_t version : {2U, 3U, 7U}) {
    write_next(version);
    EXPECT_EQ(sink().newest()->version, version);
    if (!is_feed()) {
      expect_stored(version);
      continue;
    }
    const UpdateRef update = step_from(held).update;
    ASSERT_NE(update, nullptr) << version;
    EXPECT_EQ(update->base(), held);
    EXPECT_EQ(update->target(), *sink().newest());
    EXPECT_EQ(update->commit.version, version);
    EXPECT_EQ(update->ready_bytes(), update->commit.stream_bytes);
    EXPECT_TRUE(update->has_leaves());
    held = *sink().newest();
  }
  if (!is_feed()) return;
  EXPECT_EQ(step_from(first).update->commit.version, 2U);
  EXPECT_EQ(step_from(held).update, nullptr) << "it is current";
}

TEST_P(VersionSinkContract, TheSameBytesGetALabel) {
  write_first(1);
  const HeldVersion first = *sink().newest();
  write_next(2);
  if (!is_feed()) return;  // it has no replicas to tell of a label
  const UpdateRef label = body().store().label();
  ASSERT_NE(label, nullptr);
  EXPECT_EQ(label->commit.stream_bytes, 0U);
  EXPECT_EQ(label->target(), *sink().newest());
  EXPECT_EQ(step_from({9, sink().newest()->hash}).update, label) << "only its number differs";
  EXPECT_NE(step_from(first).update, label);
}

// What has changed meanwhile is in no edition.
TEST_P(VersionSinkContract, AfterStartOverNothingLeadsOnFromBefore) {
  write_first(1);
  const HeldVersion first = *sink().newest();
  write_next(2);
  sink().start_over();
  EXPECT_FALSE(sink().newest());
  tensors.change(3, 50);
  if (!is_feed()) whole->start_over();
  write_first(3);
  EXPECT_EQ(sink().newest()->version, 3U);
  if (!is_feed()) return expect_stored(3);
  EXPECT_TRUE(step_from(first).needs_anchor);
}

// A publisher's epoch may rise while a version is coded.
TEST_P(VersionSinkContract, AnEditionHasTheEpochOfTheTimeWhenItIsWritten) {
  if (!is_feed()) return;  // records of a store have none
  write_first(1);
  const HeldVersion first = *sink().newest();
  Edition edition = make_next(2);
  if (parts != nullptr) {
    parts->begin_work(whole->store(), snapshot.arrays());
    issuer.epoch = 6;
    parts->reissue();
    catch_up();
  } else {
    issuer.epoch = 6;
    sink().write(std::move(edition));
  }
  EXPECT_EQ(step_from(first).update->commit.epoch, 6U);
  EXPECT_EQ(body().store().label()->commit.epoch, 6U);
}

// Versions that come while one of parts is made hold it up no longer than their own time.
TEST_P(VersionSinkContract, WhatHasBegunGoesOnBesideLaterVersions) {
  if (parts == nullptr) return;
  write_first(1);
  const HeldVersion first = *sink().newest();
  (void)make_next(2);
  for (std::uint64_t version = 3; version <= 6; ++version) {
    if (!parts->has_begun()) parts->begin_work(whole->store(), snapshot.arrays());
    (void)make_next(version);
    while (parts->work()) {
    }
    EXPECT_EQ(sink().newest()->version, version - 1);
  }
  catch_up();
  EXPECT_EQ(sink().newest()->version, 6U);
  HeldTensors held(shard_schema(0, 2));
  held.copy_from(tensors);
  EXPECT_EQ(sink().newest()->hash, held.hash());
  UpdateStore::Step step = step_from(first);
  for (std::uint64_t version = 2; version <= 6; ++version) {
    ASSERT_NE(step.update, nullptr);
    EXPECT_EQ(step.update->commit.version, version);
    step = step_from(step.update->target());
  }
}

TEST_P(VersionSinkContract, OneThatIsFarBehindTakesOneStep) {
  if (parts == nullptr) return;
  write_first(1);
  const HeldVersion first = *sink().newest();
  for (std::uint64_t version = 2; version <= 12; ++version) (void)make_next(version, 1000);
  catch_up();
  const UpdateRef update = step_from(first).update;
  ASSERT_NE(update, nullptr);
  EXPECT_EQ(update->commit.version, 12U);
}

// An anchor that was begun for one version leads to it, and the chain leads on.
TEST_P(VersionSinkContract, AnAnchorGoesOnBesideLaterVersions) {
  if (!is_feed()) return;
  write_first(1);
  const HeldVersion first = *sink().newest();
  body().session_feed().request_anchor();
  body().begin_work(whole->store(), snapshot.arrays());
  ASSERT_TRUE(body().has_begun());
  tensors.change(2, 50);
  Result<Edition> edition = whole->encode(2, snapshot.arrays(), {tensors.view().readable()}, {});
  ASSERT_TRUE(edition.ok());
  edition->written->keep_forward();
  const ChangeLogRef replaced = edition->replaced;
  body().give_up();
  whole->write(std::move(*edition));
  body().bring_forward(replaced);
  while (body().work()) {
  }
  const UpdateStore::Step step = body().store().step_by_anchor(0);
  ASSERT_NE(step.update, nullptr);
  EXPECT_TRUE(step.update->commit.is_anchor);
  EXPECT_EQ(step.update->target(), first) << "its bytes are those of the version before";
}

// Without what the update has replaced the bytes of the version are gone.
TEST_P(VersionSinkContract, AnAnchorThatCannotGoOnIsOwedTheThirdTime) {
  if (!is_feed()) return;
  write_first(1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(body().is_owed_anchor());
    body().session_feed().request_anchor();
    body().begin_work(whole->store(), snapshot.arrays());
    body().bring_forward(nullptr);
    EXPECT_FALSE(body().has_begun());
  }
  EXPECT_TRUE(body().is_owed_anchor());
  body().begin_work(whole->store(), snapshot.arrays());
  while (body().work()) {
  }
  EXPECT_FALSE(body().is_owed_anchor());
  EXPECT_TRUE(body().store().has_newest_anchor());
}

// A store has versions of a publisher's life before, and none of them is what the next one leads on
// from.
TEST_P(VersionSinkContract, ABodyThatIsOpenedAgainHoldsNothing) {
  if (is_feed()) return;
  write_first(1);
  write_next(2);
  expect_stored(2);
  stored.reset();
  open_store();
  EXPECT_FALSE(sink().newest());
  EXPECT_EQ(stored->last(), 2U);
  tensors.change(3, 50);
  whole->start_over();
  write_first(3);
  EXPECT_EQ(sink().newest()->version, 3U);
  expect_stored(3);
}

std::string sink_name(const testing::TestParamInfo<SinkBody>& info) {
  if (info.param == SinkBody::kStore) return "Store";
  return info.param == SinkBody::kWholeModel ? "WholeModel" : "Parts";
}

INSTANTIATE_TEST_SUITE_P(Bodies, VersionSinkContract,
                         testing::Values(SinkBody::kWholeModel, SinkBody::kParts, SinkBody::kStore),
                         sink_name);

}  // namespace
}  // namespace sparcl::replication
