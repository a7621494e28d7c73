// The program as its users meet it: exit codes, JSON, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    const Tensors base = small_model();
    Tensors target = base;
    change(target, 0.01, 3);
    write_model(at("base"), base, {{"step", "1"}});
    write_model(at("target"), target, {{"step", "2"}});
    ASSERT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("delta")}).exit_code, 0);
  }
  std::string at(std::string_view name) const { return folder_ / name; }

  // What a failed run prints with --json: the text of its message is the one on standard error.
  static nlohmann::json failure(const std::string& error, const ProgramRun& run, int exit_code) {
    constexpr std::string_view kBefore = "sparcl: error: ";
    const std::string message = run.err.substr(std::min(run.err.size(), kBefore.size()));
    return {{"ok", false},
            {"error", error},
            {"message", message.substr(0, message.find('\n'))},
            {"exit_code", exit_code}};
  }

  TempFolder folder_;
};

TEST_F(Program, DiffSaysWhatItDid) {
  const ProgramRun run =
      run_program({"diff", at("base"), at("target"), "-o", at("delta2"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json json = run.json();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::UnorderedElementsAre(
                        "ok", "elements", "changed", "density", "bytes", "bits_per_change",
                        "dense_bytes", "seconds", "base_hash", "target_hash", "added", "removed",
                        "replaced", "side_files", "skipped_files", "lossy", "partial", "left_out",
                        "largest_error", "relative_error", "not_in_index"));
  EXPECT_EQ(json["bytes"], fs::file_size(at("delta2")));
  EXPECT_NEAR(json["density"].get<double>(), 0.01, 0.002);
  EXPECT_EQ(json["bits_per_change"].get<double>(),
            8.0 * json["bytes"].get<double>() / json["changed"].get<double>());
  EXPECT_EQ(json["target_hash"].get<std::string>().size(), 32u);
  EXPECT_THAT(run_program({"diff", at("base"), at("target"), "-o", at("delta2")}).out,
              HasSubstr("bits a change"));
  expect_same(at("delta"), at("delta2"));  // the same input, the same bytes
}

TEST_F(Program, ApplyGivesTheTarget) {
  const ProgramRun run = run_program({"apply", at("base"), at("delta"), "-o", at("out"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json()["target_hash"],
            run_program({"inspect", at("target"), "--json"}).json()["state_hash"]);
  EXPECT_TRUE(run.json()["same_header"].get<bool>());
  expect_same(at("target"), at("out"));
  ASSERT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("base")}).exit_code, 0);
  expect_same(at("target"), at("base"));
}

TEST_F(Program, AnOutputThatIsAnInputIsRefused) {
  for (const std::string& input : {at("base"), at("target")}) {
    const std::uintmax_t bytes = fs::file_size(input);
    const ProgramRun run = run_program({"diff", at("base"), at("target"), "-o", input});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("would overwrite"));
    EXPECT_EQ(fs::file_size(input), bytes);
  }
  const std::uintmax_t bytes = fs::file_size(at("delta"));
  EXPECT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("delta")}).exit_code, 1);
  EXPECT_EQ(fs::file_size(at("delta")), bytes);
}

TEST_F(Program, ReferenceKernelsGiveTheSame) {
  const std::string with_reference = "SPARCL_KERNELS=ref ";
  ASSERT_EQ(
      run_program({"diff", at("base"), at("target"), "-o", at("delta2")}, with_reference).exit_code,
      0);
  expect_same(at("delta"), at("delta2"));
  ASSERT_EQ(
      run_program({"apply", at("base"), at("delta"), "-o", at("out")}, with_reference).exit_code,
      0);
  expect_same(at("target"), at("out"));
}

TEST_F(Program, AWrongBaseIsNamedWithBothHashes) {
  Tensors strange = small_model();
  change(strange, 0.001, 12);
  write_model(at("strange"), strange, {{"step", "1"}});
  const ProgramRun run =
      run_program({"apply", at("strange"), at("delta"), "-o", at("out"), "--json"});
  EXPECT_EQ(run.exit_code, 3);
  const auto hash = [&](std::string_view name) {
    return run_program({"inspect", at(name), "--json"}).json()["state_hash"].get<std::string>();
  };
  EXPECT_THAT(run.err, AllOf(StartsWith("sparcl: error: "), HasSubstr(at("strange")),
                             HasSubstr(hash("base")), HasSubstr(hash("strange"))));
  EXPECT_EQ(run.json(), failure("sparclWrongBase", run, 3));
  EXPECT_FALSE(fs::exists(at("out")));
  EXPECT_THAT(run_program({"apply", at("target"), at("delta"), "-o", at("out")}).err,
              HasSubstr("nothing to apply"));
}

TEST_F(Program, AFileIsDescribedAsWhatItIs) {
  for (const char* command : {"hash", "publish", "verify", "inspect"}) {
    const bool takes_deltas =
        std::string_view(command) == "verify" || std::string_view(command) == "inspect";
    const std::string cut = at("cut.safetensors");
    std::ofstream(cut) << "12345";
    EXPECT_THAT(run_program({command, cut}).err,
                HasSubstr("5 bytes are too few for the header's length"))
        << command;
    if (takes_deltas) continue;
    EXPECT_THAT(run_program({command, at("delta")}).err, HasSubstr("it is a delta")) << command;
  }
}

TEST_F(Program, UsageErrorsExitWith2AndAHint) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"nonsense"},
           {"diff"},
           {"diff", "a"},
           {"diff", "a", "b"},
           {"diff", "a", "b", "-o"},
           {"diff", "a", "b", "-o", "c", "--largest", "-1"},
           {"diff", "a", "b", "-o", "c", "--largest", "18446744073709551616"},
           {"diff", "a", "b", "-o", "c", "--budget", "-1"},
           {"diff", "a", "b", "-o", "c", "--values", "int8", "--rounding", "stochastic", "--seed",
            "-1"},
           {"publish", "a", "--peer-bytes", "-1"},
           {"publish", "a", "b", "--interval", "nan"},
           {"subscribe", "127.0.0.1:1", "--out", "c", "--timeout", "NaN"},
           {"advise", "a", "b", "--link", "nan"},
           {"diff", "a", "b", "-o", "c", "d"},
           {"diff", "a", "b", "-o", "c", "--mode", "wrong"},
           {"diff", "a", "b", "-o", "c", "--mode", "fresh"},
           {"apply", "a", "b"},
           {"inspect"},
           {"verify", "a", "b"},
           {"info", "--nonsense"},
       }) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, AllOf(StartsWith("sparcl: error: "), HasSubstr("--help")));
    EXPECT_EQ(run.out, "");
    std::vector<std::string> with_json = arguments;
    with_json.insert(with_json.begin() + (arguments.empty() ? 0 : 1), "--json");
    const ProgramRun as_json = run_program(with_json);
    EXPECT_EQ(as_json.json(), failure("usage", as_json, 2)) << as_json.out;
  }
}

TEST_F(Program, AMissingOrUnknownCommandIsAnsweredWithTheCommands) {
  const std::string commands = "the commands are info, diff, apply, inspect";
  EXPECT_THAT(run_program({}).err, AllOf(HasSubstr("a command is missing"), HasSubstr(commands)));
  EXPECT_THAT(run_program({"--nonsense"}).err, HasSubstr("a command is missing"));
  EXPECT_THAT(run_program({"dif", "a", "b"}).err,
              AllOf(HasSubstr("there is no command 'dif'"), HasSubstr(commands)));
  EXPECT_THAT(run_program({"--json", "dif"}).json()["message"].get<std::string>(),
              HasSubstr("there is no command 'dif'"));
}

TEST_F(Program, EverySuccessSaysOkInJson) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"info"},
           {"diff", at("base"), at("target"), "-o", at("x")},
           {"apply", at("base"), at("delta"), "-o", at("y")},
           {"inspect", at("delta")},
           {"inspect", at("base")},
           {"verify", at("delta")},
           {"verify", at("base")},
       }) {
    std::vector<std::string> with_json = arguments;
    with_json.push_back("--json");
    const ProgramRun run = run_program(with_json);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.json().value("ok", false), true) << run.out;
    EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 1);
  }
}

TEST_F(Program, SwappedArgumentsAreNamed) {
  const ProgramRun swapped = run_program({"apply", at("delta"), at("base"), "-o", at("x")});
  EXPECT_EQ(swapped.exit_code, 3);
  EXPECT_THAT(swapped.err, HasSubstr(fmt::format(
                               "the two arguments seem swapped: {} is a delta and {} a checkpoint",
                               at("delta"), at("base"))));
  EXPECT_THAT(run_program({"apply", at("base"), at("target"), "-o", at("x")}).err,
              HasSubstr(at("target") + ": it is a checkpoint, where a delta is expected"));
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"apply", at("delta"), at("delta"), "-o", at("x")},
           {"diff", at("delta"), at("target"), "-o", at("x")},
           {"diff", at("base"), at("delta"), "-o", at("x")},
       }) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 3);
    EXPECT_THAT(run.err,
                HasSubstr(at("delta") + ": it is a delta, where a checkpoint is expected"));
  }
  EXPECT_FALSE(fs::exists(at("x")));
}

TEST_F(Program, DiffNamesTheTensorsThatComeAndGo) {
  Tensors target = small_model();
  target.schema[1].name = "normal";                     // "norm" goes, "normal" comes
  target.schema[3] = {"steps", DataType::kInt32, {2}};  // the same bytes, another type
  write_model(at("other"), target);
  const nlohmann::json json =
      run_program({"diff", at("base"), at("other"), "-o", at("x"), "--json"}).json();
  EXPECT_EQ(json["added"], nlohmann::json::array({"normal"}));
  EXPECT_EQ(json["removed"], nlohmann::json::array({"norm"}));
  EXPECT_EQ(json["replaced"], nlohmann::json::array({"steps"}));
  EXPECT_THAT(run_program({"diff", at("base"), at("other"), "-o", at("x")}).out,
              HasSubstr("tensors: 1 added, 1 removed, 1 replaced"));
  EXPECT_THAT(run_program({"diff", at("base"), at("target"), "-o", at("x")}).out,
              Not(HasSubstr("tensors:")));
}

TEST_F(Program, HashSaysWhatOthersSay) {
  const nlohmann::json json = run_program({"hash", at("base"), "--json"}).json();
  EXPECT_EQ(json["kind"], "state");
  EXPECT_EQ(json["hash"], run_program({"inspect", at("base"), "--json"}).json()["state_hash"]);
  for (const auto& [kind, digits] : 
       {std::pair("xxh3", 32u), std::pair("sha256", 64u), std::pair("identity", 64u)}) {
    const std::string base = run_program({"hash", at("base"), "--kind", kind}).out;
    EXPECT_EQ(base.find("  " + at("base") + "\n"), digits);
    EXPECT_NE(base.substr(0, digits),
              run_program({"hash", at("target"), "--kind", kind}).out.substr(0, digits));
  }
  EXPECT_EQ(run_program({"hash", at("base"), "--kind", "md5"}).exit_code, 2);
  EXPECT_EQ(run_program({"hash", at("delta")}).exit_code, 3);
}

TEST_F(Program, HelpAndVersionExitWith0) {
  EXPECT_THAT(run_program({"--help"}).out,
              AllOf(HasSubstr("info"), HasSubstr("diff"), HasSubstr("apply"), HasSubstr("inspect"),
                    HasSubstr("verify")));
  EXPECT_THAT(run_program({"diff", "--help"}).out, AllOf(HasSubstr("BASE"), HasSubstr("flat")));
  EXPECT_THAT(run_program({"--version"}).out, StartsWith("sparcl "));
  EXPECT_EQ(run_program({"--help"}).exit_code + run_program({"diff", "--help"}).exit_code +
                run_program({"--version"}).exit_code,
            0);
}

TEST_F(Program, FailuresExitWith1) {
  EXPECT_EQ(run_program({"diff", at("none"), at("target"), "-o", at("x")}).exit_code, 1);
  EXPECT_EQ(run_program({"diff", at("base"), at("none"), "-o", at("x")}).exit_code, 1);
  EXPECT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("none/x")}).exit_code, 1);
  EXPECT_EQ(run_program({"apply", at("base"), at("none"), "-o", at("x")}).exit_code, 1);
  EXPECT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("none/x")}).exit_code, 1);
  EXPECT_EQ(run_program({"verify", at("none")}).exit_code, 1);
  EXPECT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("x")}, "SPARCL_KERNELS=wrong ")
                .exit_code,
            1);
  EXPECT_FALSE(fs::exists(at("x")));
}

TEST_F(Program, BadCheckpointsAreRefusedWith3) {
  write_text(at("bad"), file_of(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "a"));
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"diff", at("bad"), at("target"), "-o", at("x")},
           {"diff", at("base"), at("bad"), "-o", at("x")},
           {"apply", at("bad"), at("delta"), "-o", at("x")},
           {"apply", at("base"), at("target"), "-o", at("x")},  // no delta at all
           {"inspect", at("bad")},
           {"verify", at("bad")},
       }) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 3) << run.err;
    EXPECT_FALSE(fs::exists(at("x")));
  }
}

TEST_F(Program, VerifyChecksWithoutABase) {
  EXPECT_EQ(run_program({"verify", at("delta")}).exit_code, 0);
  EXPECT_TRUE(run_program({"verify", at("delta"), "--json"}).json()["ok"].get<bool>());
  EXPECT_EQ(run_program({"verify", at("base"), "--json"}).json()["kind"], "checkpoint");
  std::string bytes = read_text(at("delta"));
  bytes[bytes.size() / 2] ^= 4;
  write_text(at("damaged"), bytes);
  const ProgramRun run = run_program({"verify", at("damaged"), "--json"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.json(), failure("sparclCorrupt", run, 3));
  EXPECT_THAT(run.err, AllOf(HasSubstr(at("damaged")), HasSubstr("CRC32C")));
  write_text(at("cut"), read_text(at("delta")).substr(0, 1000));
  EXPECT_EQ(run_program({"verify", at("cut")}).exit_code, 3);
}

TEST_F(Program, InspectShowsWhatFilesHold) {
  const nlohmann::json delta = run_program({"inspect", at("delta"), "--json"}).json();
  EXPECT_EQ(delta["kind"], "delta");
  EXPECT_EQ(delta["bytes"], fs::file_size(at("delta")));
  EXPECT_GT(delta["modes"].size(), 3u);
  EXPECT_EQ(delta["layout_change"]["changes_tensors"], false);
  const nlohmann::json checkpoint = run_program({"inspect", at("base"), "--json"}).json();
  EXPECT_EQ(checkpoint["kind"], "checkpoint");
  EXPECT_EQ(checkpoint["state_hash"], delta["base_hash"]);
  EXPECT_EQ(checkpoint["tensors"][0]["name"], "embed");
  EXPECT_EQ(checkpoint["files"][0]["metadata"]["step"], "1");
  EXPECT_THAT(run_program({"inspect", at("delta")}).out,
              AllOf(HasSubstr("flat"), HasSubstr("bits a change")));
  EXPECT_THAT(run_program({"inspect", at("base")}).out,
              AllOf(HasSubstr("'embed'"), HasSubstr("BF16")));
}

TEST_F(Program, InfoNamesEverySettingAndItsSource) {
  const nlohmann::json info = run_program({"info", "--json"}, "SPARCL_TIMEOUT_S=7 ").json();
  EXPECT_EQ(info["transports"].size(), 4u);
  EXPECT_GE(info["kernels"].size(), 4u);
  bool found = false;
  for (const nlohmann::json& row : info["settings"]) {
    if (row["name"] != "TIMEOUT_S") {
      EXPECT_EQ(row["source"], "default") << row;
      continue;
    }
    found = true;
    EXPECT_EQ(row["value"], "7");
    EXPECT_EQ(row["source"], "environment");
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(info["settings"][1]["valid"], true);

  const std::string wrong = "SPARCL_TIMEOUT_S=soon SPARCL_VERIFY=fully SPARCL_FRAGMENT_BYTES=5 ";
  const ProgramRun marked = run_program({"info"}, wrong);
  EXPECT_EQ(marked.exit_code, 1);
  EXPECT_THAT(marked.err, AllOf(StartsWith("sparcl: error: "), HasSubstr("SPARCL_TIMEOUT_S"),
                                HasSubstr("SPARCL_VERIFY"), HasSubstr("SPARCL_FRAGMENT_BYTES")));
  EXPECT_THAT(marked.out, AllOf(HasSubstr("INVALID: expected a positive number of seconds"),
                                HasSubstr("INVALID: expected one of off|touched|full"),
                                HasSubstr("INVALID: expected one of auto|65536")));
  const ProgramRun wrong_run = run_program({"info", "--json"}, wrong);
  EXPECT_EQ(wrong_run.exit_code, 1);
  const nlohmann::json wrong_info = wrong_run.json();  // still one line
  EXPECT_EQ(wrong_info["ok"], false);
  EXPECT_EQ(wrong_info["error"], "sparclInvalidArgument");
  EXPECT_THAT(marked.err, HasSubstr(wrong_info["message"].get<std::string>()));
  for (const nlohmann::json& row : wrong_info["settings"]) {
    EXPECT_EQ(row["valid"], row["source"] == "default") << row;
    EXPECT_NE(row["accepts"], "");
  }
  EXPECT_THAT(run_program({"info"}).out, AllOf(HasSubstr("loopback"), HasSubstr("SPARCL_VERIFY")));
}

TEST_F(Program, InfoTriesUcxWithItsSettings) {
  const auto ucx = [](const ProgramRun& run) {
    const nlohmann::json info = run.json();
    for (const nlohmann::json& row : info.value("transports", nlohmann::json::array())) {
      if (row["name"] == "ucx") return row;
    }
    return nlohmann::json::object();
  };
  const nlohmann::json usual = ucx(run_program({"info", "--json"}, "unset UCX_TLS; "));
  if (usual.value("usable", false) == false ||
      usual["reason"].get<std::string>().find("not tried") != std::string::npos) {
    GTEST_SKIP() << "ucx: " << usual;
  }
  const ProgramRun wrong = run_program({"info", "--json"}, "UCX_TLS=nonsense ");
  EXPECT_EQ(wrong.exit_code, 0) << wrong.err;
  EXPECT_EQ(ucx(wrong)["usable"], false) << wrong.out;
  EXPECT_THAT(ucx(wrong)["reason"].get<std::string>(),
              AllOf(HasSubstr("UCX_TLS=nonsense"), HasSubstr("No such device")));
}

TEST_F(Program, AFullOutputIsAnError) {
  const int status = std::system("'" SPARCL_PROGRAM "' info >/dev/full 2>/dev/null");
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// A full disk in the middle of the output: the limit on a file's size stands in for it. It comes
// with a signal, which must not end the program before it has cleaned up.
TEST_F(Program, AFailedWriteLeavesNothing) {
  for (const char* signal : {"", "trap \"\" XFSZ; "}) {
    const std::size_t before = folder_.count();
    const ProgramRun run = run_program({"apply", at("base"), at("delta"), "-o", at("out")},
                                       signal + std::string("ulimit -f 100; "));
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err,
                AllOf(HasSubstr(at("out")), HasSubstr("writing "), HasSubstr("File too large")));
    EXPECT_EQ(folder_.count(), before);
  }
}

TEST_F(Program, AFolderWithAShardsNameIsNotLost) {
  Tensors target = small_model();
  write_shards(at("from"), target, 2);
  change(target, 0.02, 5);
  write_shards(at("to"), target, 2);
  ASSERT_EQ(run_program({"diff", at("from"), at("to"), "-o", at("delta2")}).exit_code, 0);
  std::string shard;
  for (const auto& entry : fs::directory_iterator(at("to"))) {
    if (entry.path().extension() == ".safetensors") shard = entry.path().filename().string();
  }
  fs::create_directories(fs::path(at("made")) / shard);
  write_text((fs::path(at("made")) / shard / "notes.txt").string(), "precious");
  const std::size_t before = folder_.count();
  const ProgramRun run = run_program({"apply", at("from"), at("delta2"), "-o", at("made")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("it holds a folder '" + shard + "'"));
  EXPECT_EQ(read_text((fs::path(at("made")) / shard / "notes.txt").string()), "precious");
  EXPECT_EQ(folder_.count(), before);
}

// Killed at whatever point it has reached: the output is whole or absent, and nothing else is left.
TEST_F(Program, ASignalLeavesNothingHalfWritten) {
  Tensors tensors;
  add_tensor(tensors, "big", DataType::kBfloat16, {2'000'000}, 1);
  write_model(at("big"), tensors);
  change(tensors, 0.1, 2);
  write_model(at("big2"), tensors);
  ASSERT_EQ(run_program({"diff", at("big"), at("big2"), "-o", at("big-delta")}).exit_code, 0);
  const std::size_t before = folder_.count();
  for (int delay_ms = 0; delay_ms < 60; delay_ms += 3) {
    const std::string line = fmt::format(
        "exec >/dev/null 2>&1; '{}' apply '{}' '{}' -o '{}' & child=$!; sleep 0.{:03}; kill -TERM "
        "$child; wait $child",
        SPARCL_PROGRAM, at("big"), at("big-delta"), at("out"), delay_ms);
    const int status = std::system(line.c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_TRUE(WEXITSTATUS(status) != 0 || fs::exists(at("out")));
    if (fs::exists(at("out"))) {  // also if the signal came after the rename
      expect_same(at("big2"), at("out"));
      fs::remove(at("out"));
    }
    ASSERT_EQ(folder_.count(), before) << delay_ms;
  }
}

TEST_F(Program, WorksOnFoldersOfShards) {
  Tensors target = small_model();
  write_shards(at("from"), target, 2);
  change(target, 0.02, 5);
  write_shards(at("to"), target, 3);
  ASSERT_EQ(run_program({"diff", at("from"), at("to"), "-o", at("delta2")}).exit_code, 0);
  const ProgramRun run = run_program({"apply", at("from"), at("delta2"), "-o", at("made")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_same(at("to"), at("made"));
}

}  // namespace
}  // namespace sparcl::test
