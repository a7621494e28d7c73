// `sparcl publish`, `sparcl subscribe` and `sparcl status HOST:PORT`: processes that talk over
// loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "src/replication/publisher.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/tools/training_program.hpp"

namespace sparcl::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> keys_of(const json& line) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : line.items()) keys.push_back(key);
  return keys;
}

TEST(ReplicationProgram, MakesTheLastFileOfThreeByteForByte) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(3)));
  BackgroundProgram subscriber(subscribe(publisher.address(), training / "out", {"--until", "3"}));
  EXPECT_EQ(subscriber.exit_code(), 0) << subscriber.err();
  expect_same(training / "out", training.path(3));

  ASSERT_EQ(publisher.lines().size(), 4u) << publisher.out();
  const json last = publisher.lines()[3];
  EXPECT_THAT(keys_of(last),
              ::testing::UnorderedElementsAre("ok", "version", "file", "hash", "changed", "bytes",
                                              "bytes_dense", "seconds"));
  EXPECT_EQ(last["version"], 3);
  EXPECT_EQ(last["file"], training.path(3));
  EXPECT_GT(last["changed"], 0);
  EXPECT_LT(last["bytes"], last["bytes_dense"]);
  ASSERT_EQ(subscriber.lines().size(), 1u) << subscriber.out();
  const json held = subscriber.lines()[0];
  EXPECT_THAT(keys_of(held), ::testing::UnorderedElementsAre(
                                 "ok", "version", "hash", "changed", "updates", "elements", "bytes",
                                 "bytes_dense", "pause_ms", "source", "damaged_blocks",
                                 "from_store"));
  EXPECT_EQ(held["hash"], last["hash"]);
  EXPECT_EQ(held["source"], "anchor");
  EXPECT_EQ(publisher.end_by(SIGTERM), 0) << publisher.err();
}

TEST(ReplicationProgram, FollowsAWatchedFolderVersionByVersion) {
  Training training;
  BackgroundProgram publisher(publish({"--watch", training.watched()}));
  BackgroundProgram subscriber(subscribe(publisher.address(), training / "out"));
  EXPECT_TRUE(subscriber.says("waiting: publisher " + publisher.address() +
                              ": nothing is published there yet"));
  const ProgramRun empty = run_program({"status", publisher.address()});
  EXPECT_EQ(empty.exit_code, 0) << empty.err;
  EXPECT_THAT(empty.out, HasSubstr("nothing is published yet"));
  for (int step = 1; step <= 3; ++step) {
    training.write(step);
    const json line = subscriber.version(static_cast<std::uint64_t>(step));
    ASSERT_FALSE(line.is_null()) << subscriber.err();
    EXPECT_EQ(line["source"], step == 1 ? "anchor" : "delta");
    expect_same(training / "out", training.path(step));
  }
  EXPECT_LT(subscriber.version(3)["bytes"].get<double>(),
            0.2 * subscriber.version(3)["bytes_dense"].get<double>());
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0);
  EXPECT_EQ(publisher.end_by(SIGINT), 0);
}

// One folder a version: complete, as changes of the version before, and one that does not fit.
TEST(ReplicationProgram, FollowsFoldersOfVersions) {
  Training training;
  Tensors tensors = small_model();
  const auto whole = [&](const std::string& name) {
    write_shards(training / "unfinished", tensors, 3);
    fs::rename(training / "unfinished", training.watched() + "/" + name);
  };
  const auto convert = [&](const std::string& name, const std::string& base, const char* layout) {
    write_shards(training / "new", tensors, 3);
    const std::string before = training.watched() + "/" + base, delta = training / "delta";
    ASSERT_EQ(run_program({"diff", before, training / "new", "-o", delta}).exit_code, 0);
    const ProgramRun run =
        run_program({"convert", delta, "-o", training / name, "--to", layout, "--base", before});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    fs::rename(training / name, training.watched() + "/" + name);
  };
  fs::create_directory(training.watched() + "/logs");  // no version
  whole("weight_v000009");
  BackgroundProgram publisher(publish({"--watch", training.watched(), "--version-from", "name"}));
  BackgroundProgram subscriber(subscribe(publisher.address(), training / "out"));
  ASSERT_FALSE(subscriber.version(9).is_null()) << publisher.err();
  change(tensors, 0.01, 2);
  convert("weight_v000010", "weight_v000009", "hf-xor");
  EXPECT_EQ(subscriber.version(10)["source"], "delta") << publisher.err();
  write_shards(training / "expected", tensors, 3);
  const ProgramRun held = run_program({"hash", training / "out", "--json"});
  EXPECT_EQ(held.json()["hash"],
            run_program({"hash", training / "expected", "--json"}).json()["hash"]);
  // It changes version 9, and not the one that is held.
  change(tensors, 0.01, 3);
  convert("weight_v000012", "weight_v000009", "hf-overwrite");
  EXPECT_TRUE(publisher.says("it is for version 11")) << publisher.err();
  whole("step_8");
  write_text(training.watched() + "/step_8/STABLE", "");
  EXPECT_TRUE(publisher.says("the number in its name is 8, version 10 is published already"))
      << publisher.err();
  change(tensors, 0.01, 4);
  whole("step_13");  // without its marker it is no version
  change(tensors, 0.01, 5);
  whole("checkpoint-14");
  write_text(training.watched() + "/checkpoint-14/model-00099.safetensors", "stale");
  ASSERT_FALSE(subscriber.version(14).is_null()) << publisher.err();
  EXPECT_EQ(publisher.version(14)["file"], training.watched() + "/checkpoint-14");
  for (const json& line : publisher.lines()) EXPECT_NE(line.value("version", 0), 13);
  EXPECT_TRUE(publisher.says("model-00099.safetensors: not in the folder's index"));
}

TEST(ReplicationProgram, AFolderThatDisappearsWhileItIsReadIsSkipped) {
  Training training;
  const Tensors tensors = small_model();
  const auto step = [&](int number) {
    const std::string name = fmt::format("step_{}", number);
    write_shards(training / name, tensors, 3);
    write_text(training / name + "/STABLE", "");
    write_text(training / name + "/model-00099.safetensors", "stale");  // it is reported
    fs::rename(training / name, training.watched() + "/" + name);
  };
  // The second reading waits for 2 s once it has reported the file above.
  ::setenv("SPARCL_TEST_FAILPOINT", "publish.read:2:delay=2000", 1);
  BackgroundProgram publisher(publish({"--watch", training.watched(), "--version-from", "name"}));
  ::unsetenv("SPARCL_TEST_FAILPOINT");
  step(1);
  ASSERT_FALSE(publisher.version(1).is_null()) << publisher.err();
  step(2);
  ASSERT_TRUE(publisher.says("step_2/model-00099.safetensors: not in the folder's index"));
  fs::remove_all(training.watched() + "/step_2");
  EXPECT_TRUE(publisher.says("step_2: it disappeared while it was read; it is skipped"))
      << publisher.err();
  step(3);
  EXPECT_FALSE(publisher.version(3).is_null()) << publisher.err();
}

TEST(ReplicationProgram, SkipsAWatchedFileThatDoesNotFit) {
  Training training;
  training.write(1);
  BackgroundProgram publisher(publish({"--watch", training.watched()}));
  ASSERT_FALSE(publisher.version(1).is_null()) << publisher.err();
  Tensors other = small_model();
  other.schema[1].name = "renamed";
  write_model(training.path(2), other);
  EXPECT_TRUE(publisher.says(training.path(2) + ": tensor 'norm' is missing; it is skipped"))
      << publisher.err();
  training.write(3);
  EXPECT_EQ(publisher.version(2)["file"], training.path(3)) << publisher.out();
}

TEST(ReplicationProgram, ATouchedFileIsNoNewVersion) {
  Training training;
  training.write(1);
  BackgroundProgram publisher(publish({"--watch", training.watched()}));
  ASSERT_FALSE(publisher.version(1).is_null()) << publisher.err();
  training.write(2);
  ASSERT_FALSE(publisher.version(2).is_null()) << publisher.err();
  fs::last_write_time(training.path(1), fs::file_time_type::clock::now());
  EXPECT_TRUE(publisher.says(training.path(1) +
                             ": new or touched, and what it holds was published already"))
      << publisher.err();
  training.write(3);
  EXPECT_EQ(publisher.version(3)["file"], training.path(3)) << publisher.out();
}

// Nobody waits for a publisher to learn of a fault in the command.
TEST(ReplicationProgram, FaultsOfACommandAreToldBeforeThereIsAPublisher) {
  Training training;
  write_text(training / "notes.txt", "mine");
  const std::string out = training / "out.safetensors", nobody = "127.0.0.1:1";
  constexpr int kUsage = 2, kError = 1;
  for (const auto& [arguments, code, text] :
       std::vector<std::tuple<std::vector<std::string>, int, std::string>>{
           {{"-o", out, "--slice", "embed:0"}, kUsage, "'embed:0' is no slice"},
           {{"-o", out, "--tensors", "("}, kUsage, "'(' is no regular expression"},
           {{"-o", training / "none/out"}, kError, "there is no folder"},
           {{"-o", training / "notes.txt"}, kError, "is no checkpoint, and would be replaced"}}) {
    std::vector<std::string> command{"subscribe", nobody};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProgramRun run = run_program(command);
    EXPECT_EQ(run.exit_code, code) << run.err;
    EXPECT_THAT(run.err, HasSubstr(text));
  }
  EXPECT_EQ(read_text(training / "notes.txt"), "mine");
}

TEST(ReplicationProgram, MovesLittleToOneThatWasKilledAndStartsAgain) {
  Training training;
  training.write(1);
  BackgroundProgram publisher(publish({"--watch", training.watched()}));
  {
    BackgroundProgram subscriber(subscribe(publisher.address(), training / "out"));
    ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
    subscriber.end_by(SIGKILL);
  }
  training.write(2);
  ASSERT_FALSE(publisher.version(2).is_null()) << publisher.err();
  BackgroundProgram again(subscribe(publisher.address(), training / "out", {"--until", "2"}));
  EXPECT_EQ(again.exit_code(), 0) << again.err();
  expect_same(training / "out", training.path(2));
  const json line = again.version(2);
  EXPECT_EQ(line["source"], "delta");
  EXPECT_LT(line["bytes"].get<double>(), 0.2 * line["bytes_dense"].get<double>());
  // And nothing to one that has it all.
  BackgroundProgram current(subscribe(publisher.address(), training / "out", {"--until", "2"}));
  EXPECT_EQ(current.exit_code(), 0) << current.err();
  EXPECT_EQ(current.version(2)["source"], "label");
}

TEST(ReplicationProgram, GoesOnWithAPublisherThatWasKilledAndStartsAgain) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(2);
  auto publisher = std::make_unique<BackgroundProgram>(publish(files));
  const std::string address = publisher->address();
  BackgroundProgram subscriber(subscribe(address, training / "out"));
  ASSERT_FALSE(subscriber.version(2).is_null()) << subscriber.err();
  publisher->end_by(SIGKILL);
  EXPECT_TRUE(subscriber.says("warning: publisher ")) << subscriber.err();
  training.write(3);
  publisher =
      std::make_unique<BackgroundProgram>(publish({files[0], files[1], training.path(3)}, address));
  const json line = subscriber.version(3);
  ASSERT_FALSE(line.is_null()) << subscriber.err() << publisher->err();
  expect_same(training / "out", training.path(3));
  EXPECT_EQ(line["source"], "delta");
  EXPECT_EQ(subscriber.lines().size(), 2u) << "it never goes back: " << subscriber.out();
}

TEST(ReplicationProgram, RunsACommandAfterEachVersion) {
  Training training;
  training.write(1);
  BackgroundProgram publisher(publish({"--watch", training.watched()}));
  const std::string command = "echo noise; echo \"$SUBSCRIBED_VERSION $SUBSCRIBED_FILE\" >> " +
                              (training / "log") + "; cmp \"$SUBSCRIBED_FILE\" " + training.path(1);
  BackgroundProgram subscriber(
      subscribe(publisher.address(), training / "out", {"--exec", command, "--until", "2"}));
  ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  training.write(2);
  EXPECT_EQ(subscriber.exit_code(), 0) << subscriber.err();
  EXPECT_EQ(read_text(training / "log"), fmt::format("1 {0}\n2 {0}\n", training / "out"));
  EXPECT_THAT(subscriber.err(),
              HasSubstr("warning: --exec after version 2: it ended with exit code 1"));
  EXPECT_EQ(subscriber.out().find("noise"), std::string::npos);
  EXPECT_EQ(subscriber.lines().size(), 2u);
}

TEST(ReplicationProgram, NamesASubscriberThatIsKilled) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(1)));
  BackgroundProgram left(subscribe(publisher.address(), training / "left"));
  ASSERT_FALSE(left.version(1).is_null()) << left.err();
  EXPECT_EQ(left.end_by(SIGTERM), 0);
  BackgroundProgram killed(subscribe(publisher.address(), training / "killed"));
  ASSERT_FALSE(killed.version(1).is_null()) << killed.err();
  EXPECT_EQ(publisher.err().find("without a goodbye"), std::string::npos) << publisher.err();
  killed.end_by(SIGKILL);
  EXPECT_TRUE(soon([&] {
    return publisher.err().find("has gone without a goodbye") != std::string::npos;
  })) << publisher.err();
  EXPECT_THAT(publisher.err(), HasSubstr("warning: replication: replica host "));
}

TEST(ReplicationProgram, PassesAStopOnToTheCommand) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(1)));
  BackgroundProgram subscriber(
      subscribe(publisher.address(), training / "out",
                {"--exec", "touch " + (training / "begun") + "; exec sleep 600"}));
  ASSERT_TRUE(soon([&] { return fs::exists(training / "begun"); })) << subscriber.err();
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0) << subscriber.err();
  EXPECT_THAT(subscriber.err(), HasSubstr("it was ended by signal 15"));
}

TEST(ReplicationProgram, EndsOnceEnoughReplicasHoldTheLastVersion) {
  Training training;
  std::vector<std::string> arguments = training.write_up_to(2);
  arguments.insert(arguments.begin(), {"--exit-when-acked", "2"});
  BackgroundProgram publisher(publish(arguments));
  BackgroundProgram first(subscribe(publisher.address(), training / "first"));
  ASSERT_FALSE(first.version(2).is_null()) << first.err();
  EXPECT_FALSE(publisher.has_ended()) << "one holds it";
  BackgroundProgram second(subscribe(publisher.address(), training / "second"));
  EXPECT_EQ(publisher.exit_code(), 0) << publisher.err();
  EXPECT_TRUE(first.says("warning: publisher ")) << first.err();
  ASSERT_FALSE(second.version(2).is_null()) << second.err();
  for (BackgroundProgram* each : {&first, &second}) EXPECT_EQ(each->end_by(SIGTERM), 0);
  expect_same(training / "first", training.path(2));
  expect_same(training / "second", training.path(2));
  EXPECT_EQ(run_program(
                {"publish", "--listen", "127.0.0.1:0", "--exit-when-acked", "0", training.path(1)})
                .exit_code,
            0);
}

TEST(ReplicationProgram, AReplicaThatEndsWithTheLastVersionIsCounted) {
  Training training;
  std::vector<std::string> arguments = training.write_up_to(2);
  arguments.insert(arguments.begin(), {"--exit-when-acked", "2"});
  BackgroundProgram publisher(publish(arguments));
  for (const char* name : {"first", "second"}) {
    BackgroundProgram replica(subscribe(publisher.address(), training / name, {"--until", "2"}));
    EXPECT_EQ(replica.exit_code(), 0) << replica.err();
  }
  EXPECT_EQ(publisher.exit_code(), 0) << publisher.err();
}

// As in a cache whose files are links to what other models share.
TEST(ReplicationProgram, ReplacesALinkAndLeavesWhatIsBehindIt) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(2)));
  fs::copy_file(training.path(1), training / "blob");
  fs::create_symlink("blob", training / "link");
  fs::create_symlink("nothing", training / "dangling");
  for (const char* name : {"link", "dangling"}) {
    EXPECT_EQ(
        run_program(subscribe(publisher.address(), training / name, {"--until", "2"})).exit_code, 0)
        << name;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(training / name))) << name;
    expect_same(training / name, training.path(2));
  }
  expect_same(training / "blob", training.path(1));
  EXPECT_FALSE(fs::exists(training / "nothing"));
}

TEST(ReplicationProgram, TellsThePublishersReplicas) {
  Training training;
  BackgroundProgram publisher(publish({"--model-id", "large", training.write_up_to(1)[0]}));
  BackgroundProgram subscriber(subscribe(publisher.address(), training / "out"));
  ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  json report;
  ASSERT_TRUE(soon([&] {
    report = run_program({"status", publisher.address(), "--json"}).json();
    return report["replicas"].size() == 1 && report["replicas"][0]["state"] == "current";
  })) << report;
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["version"], 1);
  EXPECT_EQ(report["replicas"][0]["version"], 1);
  EXPECT_EQ(report["replicas"][0]["lag"], 0);
  EXPECT_GT(report["replicas"][0]["bytes_sent"], 0);
  const ProgramRun text = run_program({"status", publisher.address()});
  EXPECT_THAT(text.out, AllOf(HasSubstr("model large, version 1, hash "), HasSubstr("replica "),
                              HasSubstr("lag"), HasSubstr("current  publisher\n")));
  const std::string address = publisher.address();
  publisher.end_by(SIGKILL);
  const ProgramRun gone = run_program({"status", address});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("publisher " + address + ": "));
}

TEST(ReplicationProgram, KeepsAFolderOfShards) {
  Training training;
  Tensors tensors = small_model();
  write_shards(training / "1", tensors, 2);
  change(tensors, 0.01, 7);
  write_shards(training / "2", tensors, 2);
  BackgroundProgram publisher(publish({training / "1", training / "2"}));
  BackgroundProgram subscriber(subscribe(publisher.address(), training / "out", {"--until", "2"}));
  EXPECT_EQ(subscriber.exit_code(), 0) << subscriber.err();
  expect_same(training / "out", training / "2");
  write_text(training / "file", "");
  const ProgramRun refused =
      run_program({"subscribe", publisher.address(), "--out", training / "file"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("the publisher's checkpoint is a folder of shards"));
}

TEST(ReplicationProgram, ReplacesAFileOfOtherTensors) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(1)));
  write_text(training / "out.safetensors", "something else");
  BackgroundProgram subscriber(
      subscribe(publisher.address(), training / "out.safetensors", {"--until", "1"}));
  EXPECT_EQ(subscriber.exit_code(), 0) << subscriber.err();
  EXPECT_THAT(subscriber.err(),
              HasSubstr("all bytes have to travel, and then replace what is there"));
  expect_same(training / "out.safetensors", training.path(1));
}

TEST(ReplicationProgram, ReplacesAnotherModelOnlyWhereItIsTold) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(1)));
  Tensors others = small_model();
  others.schema.front().name = "another";
  const std::string out = training / "other.safetensors";
  write_model(out, others);
  const std::string before = read_text(out);
  const ProgramRun refused =
      run_program({"subscribe", publisher.address(), "--out", out, "--until", "1"});
  EXPECT_EQ(refused.exit_code, 3) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("another model's"), HasSubstr("--replace"), HasSubstr(out)));
  EXPECT_EQ(read_text(out), before);
  BackgroundProgram subscriber(subscribe(publisher.address(), out, {"--until", "1", "--replace"}));
  EXPECT_EQ(subscriber.exit_code(), 0) << subscriber.err();
  expect_same(out, training.path(1));
}

TEST(ReplicationProgram, EndsWhatACommandHasStartedEvenWhereItDoesNotListen) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(1)));
  // The shell waits for a child, and neither heeds SIGTERM.
  const std::string command = "trap '' TERM; sleep 600 & echo $! > " + (training / "child.new") +
                              "; mv " + (training / "child.new") + " " + (training / "child") +
                              "; wait";
  BackgroundProgram subscriber(
      subscribe(publisher.address(), training / "out", {"--exec", command}));
  ASSERT_TRUE(soon([&] { return fs::exists(training / "child"); })) << subscriber.err();
  const pid_t child = std::stoi(read_text(training / "child"));
  EXPECT_EQ(::kill(child, 0), 0);
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0) << subscriber.err();
  EXPECT_TRUE(soon([&] {
    const std::string stat =
        read_text(fmt::format("/proc/{}/stat", child));  // a zombie where nobody buries it
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }));
}

TEST(ReplicationProgram, KeepsTheOldFileWhereTheNewOneCannotBeWritten) {
  Training training;
  BackgroundProgram publisher(publish(training.write_up_to(2)));
  fs::copy_file(training.path(1), training / "out");
  // Files of 64 KiB at most: a disk that is full.
  const ProgramRun failed =
      run_program({"subscribe", publisher.address(), "--out", training / "out", "--until", "2"},
                  "ulimit -f 64; ");
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_THAT(failed.err,
              AllOf(HasSubstr("version 2 could not be written safely: " + (training / "out")),
                    HasSubstr(" bytes")))
      << failed.err;
  expect_same(training / "out", training.path(1));
}

TEST(ReplicationProgram, WaitsForAPublisherAsLongAsItMay) {
  Training training;
  std::string address;
  {
    BackgroundProgram publisher(publish(training.write_up_to(1)));
    address = publisher.address();
    EXPECT_EQ(publisher.end_by(SIGTERM), 0);
  }
  const ProgramRun given_up =
      run_program({"subscribe", address, "--out", training / "out", "--timeout", "0.1"});
  EXPECT_EQ(given_up.exit_code, 1);
  EXPECT_THAT(given_up.err, HasSubstr("no publisher has given its model within 0.1 s"));
  BackgroundProgram stopped(subscribe(address, training / "out")),
      patient(subscribe(address, training / "out", {"--until", "1"}));
  EXPECT_TRUE(stopped.says("waiting: publisher " + address) && patient.says("waiting: "));
  EXPECT_EQ(stopped.end_by(SIGTERM), 0);
  BackgroundProgram publisher(publish({training.path(1)}, address));
  EXPECT_EQ(patient.exit_code(), 0) << patient.err() << publisher.err();
  expect_same(training / "out", training.path(1));
}

// A publisher of a program that has not published yet: it answers, and gives nothing.
TEST(ReplicationProgram, GivesUpAPublisherWithoutAVersion) {
  const TempFolder folder;
  const replication::HeldTensors tensors({{"w", DataType::kFloat32, {100}}});
  replication::PublisherOptions options;
  options.listen = "127.0.0.1:0";
  const auto publisher = replication::Publisher::create(tensors.view(), options);
  ASSERT_TRUE(publisher.ok()) << publisher.status().message();
  const std::string& address = (*publisher)->address();
  const ProgramRun given_up =
      run_program({"subscribe", address, "--out", folder / "out", "--timeout", "2"});
  EXPECT_EQ(given_up.exit_code, 1);
  EXPECT_THAT(given_up.err, HasSubstr("nothing could come for 2 s: publisher " + address +
                                      " has sent no version yet"));
}

TEST(ReplicationProgram, RefusesFilesOfDifferentTensorsBeforeItPublishes) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(1);
  Tensors other = small_model();
  other.schema[0].shape = {250, 280};
  write_model(training / "other", other);
  const ProgramRun refused =
      run_program({"publish", "--listen", "127.0.0.1:0", files[0], training / "other"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err,
              HasSubstr((training / "other") +
                        ": tensor 'embed' is BF16 [250, 280], expected is BF16 [280, 250], as in " +
                        files[0]));
}

// A worker of a sharded model: part of each matrix, and not all tensors.
TEST(ReplicationProgram, KeepsPartsOfTheModel) {
  Training training;
  training.write(1);
  BackgroundProgram publisher(publish({"--watch", training.watched()}));
  const std::vector<std::string> parts{"--tensors", "embed|head",  "--tensors", "^norm$",
                                       "--slice",   "embed:0:1/4", "--slice",   "head:1:6/7"};
  {
    BackgroundProgram subscriber(subscribe(publisher.address(), training / "out", parts));
    ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
    EXPECT_EQ(subscriber.version(1)["source"], "anchor");
    subscriber.end_by(SIGKILL);
  }
  training.write(2);
  ASSERT_FALSE(publisher.version(2).is_null()) << publisher.err();
  std::vector<std::string> more = parts;
  more.insert(more.end(), {"--until", "2"});
  BackgroundProgram again(subscribe(publisher.address(), training / "out", more));
  ASSERT_EQ(again.exit_code(), 0) << again.err();
  EXPECT_EQ(again.version(2)["source"], "delta");
  EXPECT_LT(again.version(2)["bytes"].get<double>(),
            0.1 * again.version(2)["bytes_dense"].get<double>());

  const auto whole = model::Checkpoint::open(training.path(2));
  const auto held = model::Checkpoint::open(training / "out");
  ASSERT_TRUE(whole.ok() && held.ok());
  const model::Schema expected{{"embed", DataType::kBfloat16, {70, 250}},
                               {"norm", DataType::kBfloat16, {400}},
                               {"head", DataType::kFloat32, {100, 10}}};
  ASSERT_EQ(held->schema().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::size_t source = 0, part = 0;
    while (whole->schema()[source].name != expected[i].name) ++source;
    while (held->schema()[part].name != expected[i].name) ++part;
    ASSERT_EQ(held->schema()[part], expected[i]);
    const auto from = whole->bytes(source);
    const auto to = held->bytes(part);
    if (expected[i].name == "embed") {
      EXPECT_TRUE(std::ranges::equal(to, from.subspan(70 * 250 * 2, to.size())));
    } else if (expected[i].name == "norm") {
      EXPECT_TRUE(std::ranges::equal(to, from));
    } else {
      for (std::size_t row = 0; row < 100; ++row) {
        EXPECT_TRUE(std::ranges::equal(to.subspan(row * 40, 40), from.subspan(row * 280 + 240, 40)))
            << row;
      }
    }
  }
  for (const auto& [choice, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--tensors", "gate"}, "--tensors gate: no tensor has such a name"},
           {{"--tensors", "("}, "'(' is no regular expression"},
           {{"--slice", "embed:0:4/4"}, "'embed:0:4/4' is no slice"},
           {{"--slice", "embed:0"}, "'embed:0' is no slice"},
           {{"--slice", "embed:2:0/4"}, "it has no dimension 2"},
           {{"--slice", "head:1:0/4"}, "its dimension 1 cannot be cut into 4 equal parts"},
           {{"--tensors", "norm", "--slice", "embed:0:0/4"}, "no chosen tensor has such a name"}}) {
    const ProgramRun run = run_program(subscribe(publisher.address(), training / "other", choice));
    EXPECT_NE(run.exit_code, 0);
    EXPECT_THAT(run.err, ::testing::HasSubstr(says));
  }
}

TEST(ReplicationProgram, FailsWith1AndWrongUsageWith2) {
  Training training;
  const std::string file = training.write_up_to(1)[0];
  EXPECT_EQ(run_program({"publish", training / "absent"}).exit_code, 1);
  EXPECT_EQ(run_program({"publish", "--watch", training / "absent"}).exit_code, 1);
  EXPECT_EQ(run_program({"publish", "--key", training / "absent", file}).exit_code, 1);
  EXPECT_EQ(run_program({"subscribe", "127.0.0.1:1", "--out", training / "out", "--trust",
                         training / "absent", "--model-id", "m"})
                .exit_code,
            1);
  const std::vector<std::vector<std::string>> wrong{
      {"publish"},
      {"publish", file, "--watch", training.watched()},
      {"publish", "--listen", "nowhere", file},
      {"publish", "--interval", "-1", file},
      {"publish", "--exit-when-acked", "some", file},
      {"publish", "--first-version", "0", file},
      {"subscribe", "--out", training / "out"},
      {"subscribe", "127.0.0.1:1"},
      {"subscribe", "nowhere", "--out", training / "out"},
      {"subscribe", "127.0.0.1:1", "--out", training / "out", "--until", "0"},
      {"publish", "--key", "", file},
      {"subscribe", "127.0.0.1:1", "--out", training / "out", "--trust", ""},
      {"subscribe", "127.0.0.1:1", "--out", training / "out", "--trust", file},
      {"subscribe", "127.0.0.1:1", "--out", training / "out", "--trust", file, "--model-id", ""},
      {"publish", "--state", "", file},
      {"status", "127.0.0.1:"},
      {"status", "127.0.0.1:1", "--remove"}};
  for (const std::vector<std::string>& arguments : wrong) {
    EXPECT_EQ(run_program(arguments).exit_code, 2) << fmt::format("{}", fmt::join(arguments, " "));
  }
}

}  // namespace
}  // namespace sparcl::test
