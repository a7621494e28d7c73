// The contract VersionSink, on every body: the sessions of replicas that hold the whole model, and
// those of replicas that hold parts of it.

#include "src/model/version_sink.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "src/model/snapshot.hpp"
#include "src/replication/feed.hpp"
#include "tests/replication/sharded_model.hpp"

namespace sparcl::replication {
namespace {

enum class SinkBody { kWholeModel, kParts };

// A publisher's tensors, its snapshot of the newest version, and a sink of its versions.
class VersionSinkContract : public testing::TestWithParam<SinkBody> {
 protected:
  VersionSinkContract() {
    issuer.model_id = "m";
    issuer.epoch = 5;
    whole = std::make_unique<Feed>(issuer, tensors.view(), Feed::Options{});
    if (GetParam() == SinkBody::kWholeModel) return;
    Result<std::shared_ptr<Feed>> made = Feed::of_parts(issuer, tensors.view(), tensors.schema(),
                                                        model::serialise(shard_schema(0, 2)), {});
    EXPECT_TRUE(made.ok()) << made.status().message();
    parts = std::move(*made);
  }
  Feed& body() { return parts != nullptr ? *parts : *whole; }
  model::VersionSink& sink() { return body(); }

  Edition make_first(std::uint64_t version) {
    EXPECT_TRUE(snapshot.take(*tensors.view().map, tensors.view().arrays).ok());
    return std::move(*body().first_edition(version, snapshot.arrays()));
  }
  void write_first(std::uint64_t version) {
    Edition edition = make_first(version);
    if (parts != nullptr)
      whole->write(std::move(*whole->first_edition(version, snapshot.arrays())));
    sink().write(std::move(edition));
  }
  // The snapshot is brought forward to the tensors.
  Edition make_next(std::uint64_t version) {
    tensors.change(version, 50);
    const ReplicatedState view = tensors.view();
    Result<Edition> edition = whole->encode(version, snapshot.arrays(), {view.readable()}, {});
    EXPECT_TRUE(edition.ok()) << edition.status().message();
    edition->written->keep_forward();
    if (parts == nullptr) return std::move(*edition);
    const ChangeLogRef replaced = edition->replaced;
    whole->write(std::move(*edition));
    edition = parts->next_edition(version, snapshot.arrays(), replaced);
    EXPECT_TRUE(edition.ok()) << edition.status().message();
    return std::move(*edition);
  }
  void write_next(std::uint64_t version) { sink().write(make_next(version)); }
  // What a replica that holds `held` gets next.
  UpdateStore::Step step_from(const HeldVersion& held) { return body().store().step_from(held); }

  HeldTensors tensors{whole_schema()};
  model::Snapshot snapshot;
  Issuer issuer;
  std::unique_ptr<Feed> whole;
  std::shared_ptr<Feed> parts;
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
    const UpdateRef update = step_from(held).update;
    ASSERT_NE(update, nullptr) << version;
    EXPECT_EQ(update->base(), held);
    EXPECT_EQ(update->target(), *sink().newest());
    EXPECT_EQ(update->commit.version, version);
    EXPECT_EQ(update->ready_bytes(), update->commit.stream_bytes);
    EXPECT_TRUE(update->has_leaves());
    held = *sink().newest();
  }
  EXPECT_EQ(step_from(first).update->commit.version, 2U);
  EXPECT_EQ(step_from(held).update, nullptr) << "it is current";
}

TEST_P(VersionSinkContract, TheSameBytesGetALabel) {
  write_first(1);
  const HeldVersion first = *sink().newest();
  write_next(2);
  const UpdateRef label = body().store().label();
  ASSERT_NE(label, nullptr);
  EXPECT_EQ(label->commit.stream_bytes, 0U);
  EXPECT_EQ(label->target(), *sink().newest());
  EXPECT_EQ(step_from({9, sink().newest()->hash}).update, label) << "only its number differs";
  EXPECT_NE(step_from(first).update, label);
}

TEST_P(VersionSinkContract, AfterStartOverNothingLeadsOnFromBefore) {
  write_first(1);
  const HeldVersion first = *sink().newest();
  write_next(2);
  sink().start_over();
  EXPECT_FALSE(sink().newest());
  write_first(3);
  EXPECT_EQ(sink().newest()->version, 3U);
  EXPECT_TRUE(step_from(first).needs_anchor);
}

// A publisher's epoch may rise while a version is coded.
TEST_P(VersionSinkContract, AnEditionHasTheEpochOfTheTimeWhenItIsWritten) {
  write_first(1);
  const HeldVersion first = *sink().newest();
  Edition edition = make_next(2);
  issuer.epoch = 6;
  sink().write(std::move(edition));
  EXPECT_EQ(step_from(first).update->commit.epoch, 6U);
  EXPECT_EQ(body().store().label()->commit.epoch, 6U);
}

std::string sink_name(const testing::TestParamInfo<SinkBody>& info) {
  return info.param == SinkBody::kWholeModel ? "WholeModel" : "Parts";
}

INSTANTIATE_TEST_SUITE_P(Bodies, VersionSinkContract,
                         testing::Values(SinkBody::kWholeModel, SinkBody::kParts), sink_name);

}  // namespace
}  // namespace sparcl::replication
