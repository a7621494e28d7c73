// What `sparcl publish` and `sparcl subscribe` believe of each other: keys, records, epochs,
// refusals, acknowledgements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/replication/query.hpp"
#include "src/replication/record_file.hpp"
#include "tests/replication/forged_state.hpp"
#include "tests/replication/replica_pair.hpp"
#include "tests/tools/training_program.hpp"

namespace sparcl::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> trusting(const std::string& key, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--trust", key, "--model-id", "m"});
  return more;
}

// It answers with its first version.
bool serves(BackgroundProgram& publisher) {
  return soon([&] {
    return run_program({"status", publisher.address(), "--json"}).json().value("version", 0) > 0;
  });
}

TEST(ReplicationProgram, RefusesWhatIsNotSignedByATrustedKey) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(1);
  for (const char* name : {"right", "wrong"})
    ASSERT_EQ(run_program({"keygen", "-o", training / name}).exit_code, 0);
  BackgroundProgram with_key(publish({"--model-id", "m", "--key", training / "right", files[0]}));
  BackgroundProgram without(publish({"--model-id", "m", files[0]}));
  ASSERT_TRUE(serves(with_key) && serves(without));
  const std::vector<std::string> limits{"--timeout", "3"};
  BackgroundProgram wrong(
      subscribe(with_key.address(), training / "out", trusting(training / "wrong.pub", limits)));
  BackgroundProgram unsigned_one(
      subscribe(without.address(), training / "out", trusting(training / "right.pub", limits)));
  for (BackgroundProgram* refused : {&wrong, &unsigned_one}) {
    EXPECT_EQ(refused->exit_code(), 3) << refused->err();
    EXPECT_EQ(refused->line_with("ok", false)["error"], "sparclUnauthorized") << refused->out();
    EXPECT_THAT(
        refused->err(),
        HasSubstr("no answer of a publisher could be taken within 3 s: publisher 127.0.0.1:"));
  }
  EXPECT_FALSE(fs::exists(training / "out"));
  BackgroundProgram right(subscribe(with_key.address(), training / "out",
                                    trusting(training / "right.pub", {"--until", "1"})));
  EXPECT_EQ(right.exit_code(), 0) << right.err();
  expect_same(training / "out", files[0]);
}

// By its hash it is the version that is published.
TEST(ReplicationProgram, ReplacesAForgedFile) {
  Training training;
  Tensors tensors = small_model();
  std::byte* const block = tensors.bytes.front().data();
  ASSERT_TRUE(replication::forgery().is_found());
  replication::forgery().prepare(block);
  write_model(training / "right", tensors);
  replication::forgery().apply(block);
  write_model(training / "out", tensors);
  ASSERT_EQ(run_program({"hash", training / "out"}).out.substr(0, 32),
            run_program({"hash", training / "right"}).out.substr(0, 32));
  ASSERT_NE(read_text(training / "out"), read_text(training / "right"));
  BackgroundProgram publisher(publish({training / "right"}));
  BackgroundProgram replica(subscribe(publisher.address(), training / "out", {"--until", "1"}));
  EXPECT_EQ(replica.exit_code(), 0) << replica.err();
  EXPECT_EQ(read_text(training / "out"), read_text(training / "right"));
}

TEST(ReplicationProgram, RefusesAnotherModel) {
  Training training;
  BackgroundProgram publisher(publish({"--model-id", "large", training.write_up_to(1)[0]}));
  ASSERT_TRUE(serves(publisher));
  BackgroundProgram small(
      subscribe(publisher.address(), training / "out", {"--model-id", "small", "--timeout", "3"}));
  EXPECT_EQ(small.exit_code(), 3);
  EXPECT_THAT(small.err(), HasSubstr("it has the model 'large', asked for is 'small'"));
  BackgroundProgram large(
      subscribe(publisher.address(), training / "out", {"--model-id", "large", "--until", "1"}));
  EXPECT_EQ(large.exit_code(), 0) << large.err();
}

// Whoever answers at the publisher's address is anybody: that one is refused, told, and the right
// one is followed again.
TEST(ReplicationProgram, ARefusalEndsNoSubscriber) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(2);
  auto publisher = std::make_unique<BackgroundProgram>(publish({files[0]}));
  const std::string address = publisher->address();
  BackgroundProgram subscriber(subscribe(address, training / "out")),
      one_shot(subscribe(address, training / "shot", {"--until", "9", "--timeout", "2"}));
  ASSERT_FALSE(subscriber.version(1).is_null() || one_shot.version(1).is_null())
      << subscriber.err();
  publisher->end_by(SIGKILL);
  Tensors other = small_model();
  other.schema[1].name = "renamed";
  write_model(training / "other", other);
  publisher = std::make_unique<BackgroundProgram>(publish({training / "other"}, address));
  EXPECT_TRUE(subscriber.says("its tensors are not the publisher's")) << subscriber.err();
  EXPECT_TRUE(subscriber.says("(sparclMismatch); it is tried again")) << subscriber.err();
  EXPECT_THAT(subscriber.err(), HasSubstr(address));
  EXPECT_EQ(one_shot.exit_code(), 3) << one_shot.err();
  EXPECT_THAT(one_shot.err(), HasSubstr("nothing could come for 2 s: publisher "));
  EXPECT_FALSE(subscriber.has_ended()) << subscriber.err();
  publisher->end_by(SIGKILL);
  publisher = std::make_unique<BackgroundProgram>(publish({files[0], files[1]}, address));
  EXPECT_FALSE(subscriber.version(2).is_null()) << subscriber.err() << publisher->err();
  expect_same(training / "out", files[1]);
}

TEST(ReplicationProgram, WritesWhatCameBeforeItIsRefused) {
  Training training;
  training.write(1);
  auto publisher = std::make_unique<BackgroundProgram>(publish({"--watch", training.watched()}));
  const std::string address = publisher->address();
  // Busy with version 1 while version 2 comes, and after it the refusal.
  const std::string command = "while ! [ -e " + (training / "go") + " ]; do sleep 0.02; done";
  BackgroundProgram subscriber(subscribe(address, training / "out", {"--exec", command}));
  ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  training.write(2);
  json report;
  ASSERT_TRUE(soon([&] {
    report = run_program({"status", address, "--json"}).json();
    return report["replicas"].size() == 1 && report["replicas"][0]["staged"] == 2;
  })) << report;
  publisher->end_by(SIGKILL);
  Tensors other = small_model();
  other.schema[1].name = "renamed";
  write_model(training / "other", other);
  publisher = std::make_unique<BackgroundProgram>(publish({training / "other"}, address));
  ASSERT_TRUE(subscriber.says("its tensors are not the publisher's")) << subscriber.err();
  write_text(training / "go", "");
  EXPECT_FALSE(subscriber.version(2).is_null()) << subscriber.out();
  expect_same(training / "out", training.path(2));
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0) << subscriber.err();
}

TEST(ReplicationProgram, RemembersBesideItsFileWhatItHeld) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(1);
  ASSERT_EQ(run_program({"keygen", "-o", training / "key"}).exit_code, 0);
  BackgroundProgram publisher(publish({"--model-id", "m", "--key", training / "key", files[0]}));
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--until", "1"});
    return run_program(
        subscribe(publisher.address(), training / "out", trusting(training / "key.pub", more)));
  };
  EXPECT_EQ(run({}).exit_code, 0);
  const std::string record = training / "out.sparcl-record", whole = read_text(record);
  EXPECT_THAT(whole, AllOf(HasSubstr("model_id m\n"), HasSubstr("version 1\n")));
  EXPECT_EQ(run({}).exit_code, 0);
  write_text(record, whole.substr(0, whole.size() / 2));
  const ProgramRun damaged = run({});
  EXPECT_EQ(damaged.exit_code, 3) << damaged.err;
  EXPECT_THAT(damaged.err, AllOf(HasSubstr(record), HasSubstr("damaged"), HasSubstr("Remove it")));
  const ProgramRun allowed = run({"--allow-rollback"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  EXPECT_THAT(allowed.err, HasSubstr(record + " does not count"));
  EXPECT_THAT(read_text(record), ::testing::StartsWith(whole.substr(0, whole.find("commit "))))
      << "it is written anew";
  expect_same(training / "out", files[0]);
}

// A man in the middle that changes nothing but the file header in the description.
TEST(ReplicationProgram, ADescriptionThatWasChangedIsNotTakenByThoseThatTrustAKey) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(1);
  ASSERT_EQ(run_program({"keygen", "-o", training / "key"}).exit_code, 0);
  BackgroundProgram publisher(publish({"--model-id", "m", "--key", training / "key", files[0]}));
  ASSERT_TRUE(serves(publisher));
  const Result<replication::ModelReply> truth = replication::query_model(publisher.address(), 20);
  ASSERT_TRUE(truth.ok() && !truth->signatures.empty()) << truth.status().message();
  replication::ModelReply changed = *truth;
  const std::string_view own = "a training", evil = "a stranger";
  const auto found = std::ranges::search(changed.description, std::as_bytes(std::span(own)));
  ASSERT_FALSE(found.empty()) << "the header travels as text";
  std::ranges::copy(std::as_bytes(std::span(evil)), found.begin());
  replication::RawPublisher middle;
  BackgroundProgram subscriber(subscribe(middle.address(), training / "out",
                                         trusting(training / "key.pub", {"--timeout", "20"})));
  replication::RawPeer peer = middle.accept_any();
  ASSERT_EQ(peer.hear(), replication::MessageType::kModelQuery);
  peer.say(replication::MessageType::kModelReply, changed);
  EXPECT_TRUE(subscriber.says("the description of its model: the signature is not one by the key"))
      << subscriber.err();
  EXPECT_FALSE(subscriber.has_ended());
  EXPECT_FALSE(fs::exists(training / "out"));
}

// Its clock was ahead: the epoch in its state file is later than the clock is now.
TEST(ReplicationProgram, FollowsAPublisherWhoseClockWasAhead) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(2);
  const std::uint64_t ahead =
      replication::system_nanoseconds() + std::uint64_t{24} * 3600 * 1'000'000'000;
  const std::string state = training / "state";
  ASSERT_TRUE(replication::write_record(state, "sparcl publisher state 1",
                                        {{"epoch", std::to_string(ahead)}})
                  .ok());
  auto publisher = std::make_unique<BackgroundProgram>(publish({"--state", state, files[0]}));
  const std::string address = publisher->address();
  BackgroundProgram subscriber(subscribe(address, training / "out"));
  ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  publisher->end_by(SIGKILL);
  fs::remove(state);  // what was kept is lost: the replica says it
  publisher =
      std::make_unique<BackgroundProgram>(publish({"--state", state, files[0], files[1]}, address));
  EXPECT_FALSE(subscriber.version(2).is_null()) << subscriber.err() << publisher->err();
  expect_same(training / "out", files[1]);
  EXPECT_TRUE(publisher->says("raises its epoch")) << publisher->err();
  EXPECT_TRUE(soon([&] { return fs::exists(state); }));
}

TEST(ReplicationProgram, SaysThatAcknowledgementsAreAdvisory) {
  Training training;
  BackgroundProgram publisher(publish({"--exit-when-acked", "1", training.write_up_to(1)[0]}));
  BackgroundProgram subscriber(subscribe(publisher.address(), training / "out", {"--until", "1"}));
  EXPECT_EQ(publisher.exit_code(), 0) << publisher.err();
  const json line = publisher.line_with("acknowledged", 1);
  ASSERT_FALSE(line.is_null()) << publisher.out();
  EXPECT_EQ(line["acknowledgements"], "advisory");
  EXPECT_EQ(line["acknowledged_version"], 1);
}

}  // namespace
}  // namespace sparcl::test
