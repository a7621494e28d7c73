// Outputs under names that are links, long, or hostile; and what is left of killed runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/background_program.hpp"
#include "tools/sparcl/publisher_report.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OutputName : public DiffedModels {
 protected:
  // Each command that writes a file, to that file.
  std::vector<std::vector<std::string>> writers(const std::string& out) const {
    return {{"diff", at("base"), at("target"), "-o", out},
            {"apply", at("base"), at("delta"), "-o", out},
            {"compose", at("delta"), "--base", at("base"), "-o", out},
            {"invert", at("base"), at("delta"), "-o", out},
            {"convert", at("delta"), "--to", "coo", "--base", at("base"), "-o", out}};
  }
};

TEST_F(OutputName, ALinkIsReplacedAndWhatIsBehindItStays) {
  write_text(at("blob"), "shared with other models");
  for (const char* link_to : {"blob", "nothing"}) {
    for (const std::vector<std::string>& writer : writers(at("link"))) {
      fs::remove(at("link"));
      fs::create_symlink(link_to, at("link"));
      const ProgramRun run = run_program(writer);
      EXPECT_EQ(run.exit_code, 0) << writer[0] << ": " << run.err;
      EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at("link")))) << writer[0];
      EXPECT_EQ(read_text(at("blob")), "shared with other models") << writer[0];
      EXPECT_FALSE(fs::exists(at("nothing"))) << writer[0];
    }
  }
}

TEST_F(OutputName, ALinkToAFolderIsReplacedByTheFolderOfShards) {
  Tensors target = base_;
  change(target, 0.01, 4);
  write_shards(at("shards"), base_, 3);
  write_shards(at("next"), target, 3);
  ASSERT_EQ(run_program({"diff", at("shards"), at("next"), "-o", at("shards.delta")}).exit_code, 0);
  fs::copy(at("shards"), at("real"));
  for (const char* link_to : {"real", "nothing"}) {
    fs::remove_all(at("link"));
    fs::create_directory_symlink(link_to, at("link"));
    const ProgramRun run =
        run_program({"apply", at("shards"), at("shards.delta"), "-o", at("link")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_TRUE(fs::is_directory(fs::symlink_status(at("link"))));
    expect_same(at("link"), at("next"));
    expect_same(at("real"), at("shards"));
  }
  EXPECT_FALSE(fs::exists(at("nothing")));
  EXPECT_EQ(folder_.count(), 8u) << "nothing unfinished is left";
}

TEST_F(OutputName, NamesOfUpTo255BytesAreAccepted) {
  for (const std::size_t bytes : {100u, 101u, 231u, 241u, 255u}) {
    const std::string out = at(std::string(bytes, 'n'));
    for (const std::vector<std::string>& writer : writers(out)) {
      const ProgramRun run = run_program(writer);
      EXPECT_EQ(run.exit_code, 0) << writer[0] << " " << bytes << ": " << run.err;
      EXPECT_TRUE(fs::exists(out));
      fs::remove(out);
    }
  }
  EXPECT_EQ(run_program({"keygen", "-o", at(std::string(251, 'k'))}).exit_code, 0);
  EXPECT_EQ(folder_.count(), 5u);
}

// As kill -9 leaves them: of an id that no process has.
TEST_F(OutputName, WhatKilledRunsHaveLeftIsRemovedByTheNext) {
  for (const std::vector<std::string>& writer : writers(at("out"))) {
    write_text(at(".out.sparcl-2147483646-0"), "half");
    fs::create_directory(at(".out.sparcl-2147483646-1"));
    write_text(at(".out.sparcl-2147483646-1/x"), "half");
    write_text(at(".other.sparcl-2147483646-0"), "another output's");
    EXPECT_EQ(run_program(writer).exit_code, 0) << writer[0];
    EXPECT_EQ(folder_.count(), 5u) << writer[0];
    EXPECT_TRUE(fs::exists(at(".other.sparcl-2147483646-0")));
    fs::remove(at("out"));
  }
  write_text(at(".key.sparcl-2147483646-0"), "half");
  EXPECT_EQ(run_program({"keygen", "-o", at("key")}).exit_code, 0);
  EXPECT_FALSE(fs::exists(at(".key.sparcl-2147483646-0")));
}

TEST_F(OutputName, AShardThatIsNotInTheIndexIsTold) {
  write_shards(at("shards"), base_, 3);
  write_model(at("shards/model-00009.safetensors"), base_);
  write_shards(at("next"), base_, 3);
  const std::string stray = at("shards/model-00009.safetensors");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"hash", at("shards")},
        {"verify", at("shards")},
        {"inspect", at("shards")},
        {"diff", at("shards"), at("next"), "-o", at("d")}}) {
    std::vector<std::string> as_json = command;
    as_json.push_back("--json");
    const ProgramRun run = run_program(as_json);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err,
                AllOf(HasSubstr("warning: " + stray), HasSubstr("not in the folder's index")))
        << command[0];
    const std::string told = run.json()["not_in_index"][0];
    EXPECT_EQ(told, command[0] == "diff" ? stray : "model-00009.safetensors");
  }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"advise", at("shards"), at("next")},
        {"apply", at("shards"), at("d"), "-o", at("applied")},
        {"invert", at("shards"), at("d"), "-o", at("inverse")},
        {"compose", at("d"), "--base", at("shards"), "-o", at("composed")},
        {"convert", at("d"), "--base", at("shards"), "--to", "coo", "-o", at("coo")},
        {"convert", at("coo"), "--base", at("shards"), "--to", "coo_zstd", "-o", at("zstd")}}) {
    const ProgramRun run = run_program(command);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("warning: " + stray)) << command[0];
    EXPECT_EQ(run.err.find("warning", run.err.find("warning") + 1), std::string::npos) << run.err;
  }
  const ProgramRun quiet = run_program({"hash", at("next"), "--json"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_TRUE(quiet.json()["not_in_index"].empty());
}

// No output of any command may hold the bytes that drive a terminal, or a line that the program did
// not mean.
void expect_harmless(const ProgramRun& run, const std::string& what) {
  for (const std::string* text : {&run.out, &run.err}) {
    for (const char* bad : {"\x1b", "\nforged", "\xe2\x80\xae", "\xff", "\a"})
      EXPECT_EQ(text->find(bad), text->npos) << what << *text;
  }
}

TEST_F(OutputName, HostileNamesOfFilesReachNoTerminal) {
  const std::vector<std::string> names{"n\nforged: line", "e\x1b[31m", "r\xe2\x80\xaetxt",
                                       "u\xff\xfe", "b\\x41\a"};
  for (const std::string& name : names) {
    const std::string out = at(name);
    for (const bool as_json : {false, true}) {
      std::vector<std::vector<std::string>> commands = writers(out);
      commands.insert(commands.end(), {{"hash", out},
                                       {"verify", out},
                                       {"inspect", out},
                                       {"apply", out, out, "-o", out},
                                       {"info", out},
                                       {"diff", out, at("target"), "-o", at("d")},
                                       {"subscribe", "127.0.0.1:1", "-o", out, "--timeout", "0"},
                                       {"publish", out, at("delta")},
                                       {"keygen", "-o", out},
                                       {"status", out},
                                       {name}});
      for (std::vector<std::string>& command : commands) {
        if (as_json) command.push_back("--json");
        const ProgramRun run = run_program(command);
        expect_harmless(run, command[0] + ": ");
        if (!as_json || run.out.empty()) continue;
        const nlohmann::json json = run.json();
        EXPECT_FALSE(json.is_discarded()) << command[0] << ": " << run.out;
        const bool names_output =
            json.value("ok", false) && json.contains("output") && name.find('\xff') == name.npos;
        EXPECT_EQ(names_output ? json["output"].get<std::string>() : out, out);
      }
      fs::remove(out);
    }
  }
  const ProgramRun run =
      run_program({"apply", at("base"), at("delta"), "-o", at("u\xff"), "--json"});
  EXPECT_EQ(run.json()["output"], at("u\xef\xbf\xbd"
                                     "ff"));
  EXPECT_THAT(run_program({"apply", at("base"), at("delta"), "-o", at("n\n\\")}).out,
              HasSubstr(at("n\\x0a\\\\")));
}

TEST_F(OutputName, HostileNamesInsideFilesReachNoTerminal) {
  Tensors base;
  for (const char* name : {"t\nforged: line", "t\x1b[31m", "t\xe2\x80\xae"})
    add_tensor(base, name, DataType::kFloat32, {100}, 1);
  Tensors target = base;
  change(target, 0.5, 2);
  write_model(at("base"), base, {{"k\nforged", "v\x1b[31m"}});
  write_model(at("target"), target, {{"k\nforged", "w\xe2\x80\xae"}});
  for (const std::vector<std::string>& command : writers(at("out")))
    expect_harmless(run_program(command), command[0] + ": ");
  for (const char* file : {"base", "delta", "out"}) {
    expect_harmless(run_program({"inspect", at(file)}), "inspect: ");
    expect_harmless(run_program({"inspect", at(file), "--json"}), "inspect --json: ");
  }
  expect_harmless(
      run_program({"diff", at("base"), at("target"), "-o", at("d"), "--only", "no\nforged\x1b"}),
      "--only: ");
  EXPECT_EQ(run_program({"inspect", at("base"), "--json"}).json()["tensors"][0]["name"],
            "t\nforged: line");
}

// A report comes from the network.
TEST_F(OutputName, HostileNamesOfPeersReachNoTerminal) {
  const Result<tool::Json> report = tool::parse_publisher_report(
      R"({"publisher":"p\nforged","address":"\u001b[31m","model_id":"\u202e","version":1,"hash":"\u0007",)"
      R"("replicas":[{"name":"r\nforged","state":"\u001b","from":"\u202e"}]})");
  ASSERT_TRUE(report.ok()) << report.status().message();
  ProgramRun shown;
  shown.out = tool::publisher_text(*report);
  expect_harmless(shown, "status: ");
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("p\\x0aforged"), HasSubstr("r\\x0aforged"), HasSubstr("\\x1b[31m")));
}

// They come with a version: to the publisher's console, to the subscriber's, and into the log of
// either.
TEST_F(OutputName, HostileNamesAreHarmlessInDaemonsToo) {
  const std::string watched = at("w\nforged\x1b");
  fs::create_directory(watched);
  fs::copy_file(at("base"), watched + "/1\nforged\x1b\xff.safetensors");
  fs::create_directory(watched + "/2\nforged.safetensors");
  const ProgramRun refused = run_program(
      {"publish", "--watch", watched, "--model-id", "m\nforged\x1b", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(refused.exit_code, 2);
  expect_harmless(refused, "--model-id: ");
  BackgroundProgram publisher({"publish", "--listen", "127.0.0.1:0", "--watch", watched});
  BackgroundProgram subscriber(
      {"subscribe", publisher.address(), "--out", at("o\nforged\x1b"), "--exec", "exit 3"});
  EXPECT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  EXPECT_TRUE(publisher.says("no regular file")) << publisher.err();
  EXPECT_TRUE(subscriber.says("exit code 3")) << subscriber.err();
  const ProgramRun status = run_program({"status", publisher.address()});
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0);
  EXPECT_EQ(publisher.end_by(SIGTERM), 0);
  for (const BackgroundProgram* each : {&publisher, &subscriber}) {
    expect_harmless({0, each->out(), each->err()}, "daemon: ");
    for (const nlohmann::json& line : each->lines()) EXPECT_TRUE(line.is_object());
  }
  expect_harmless(status, "status: ");
}

}  // namespace
}  // namespace sparcl::test
