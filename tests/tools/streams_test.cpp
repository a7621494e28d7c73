// Programs whose standard streams are full, closed, or pipes that nobody reads.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/tools/background_program.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Streams : public DiffedModels {
 protected:
  // By the shell, with its redirections; "base" and so on are files here. The exit code, or 128 and
  // the signal.
  int run(const std::string& line) const {
    const int status = std::system(
        fmt::format("cd '{}'; unset SPARCL_TRACE SPARCL_TEST_LONG; '" SPARCL_PROGRAM "' {}",
                    folder_.path().string(), line)
            .c_str());
    return WEXITSTATUS(status);
  }
};

TEST_F(Streams, ExitCodesDoNotDependOnStandardError) {
  for (const char* where : {"2>/dev/full", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    EXPECT_EQ(run(fmt::format("apply target delta -o y {}", where)), 3) << where;
    EXPECT_EQ(run(fmt::format("apply no delta -o y {}", where)), 1) << where;
    EXPECT_EQ(run(fmt::format("nosuch {}", where)), 2) << where;
    EXPECT_EQ(run(fmt::format("hash base --json {} >/dev/null", where)), 0) << where;
  }
}

// As cat does.
TEST_F(Streams, AResultThatCannotBeWrittenIsAnError) {
  for (const char* command : {"hash base", "hash base --json", "inspect delta", "info", "--help",
                              "--version", "status --json"}) {
    EXPECT_EQ(run(fmt::format("{} >/dev/full 2>err", command)), 1) << command;
    EXPECT_THAT(read_text(at("err")),
                AllOf(HasSubstr("standard output"), HasSubstr("No space left on device")))
        << command;
  }
}

TEST_F(Streams, AReaderThatHasEnoughIsNone) {
  for (const char* command : {"inspect base", "hash base --json", "--help"}) {
    // The reading end is closed before the program begins.
    const int code = run(
        fmt::format("--version >/dev/null; mkfifo pipe; exec 3<>pipe 4>pipe 3>&-; '" SPARCL_PROGRAM
                    "' {} >&4 2>err; code=$?; rm pipe; exit $code",
                    command));
    EXPECT_EQ(code, 0) << command;
    EXPECT_EQ(read_text(at("err")), "") << command;
  }
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), bytes);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
  ::close(fd);
  return ntohs(address.sin_port);
}

// `sparcl LINE` with the shell's redirections, as a process of its own.
class ShellProgram {
 public:
  explicit ShellProgram(const std::string& line) {
    child_ = ::fork();
    if (child_ != 0) return;
    for (const char* tests_own : {"SPARCL_TRACE", "SPARCL_TEST_LONG"}) ::unsetenv(tests_own);
    ::execl("/bin/sh", "sh", "-c", ("exec '" SPARCL_PROGRAM "' " + line).c_str(), nullptr);
    ::_exit(127);
  }
  ~ShellProgram() {
    if (child_ > 0) (void)end_by(SIGKILL);
  }
  std::string descriptor(int number) const {
    std::error_code error;
    return fs::read_symlink(fmt::format("/proc/{}/fd/{}", child_, number), error).string();
  }
  // The exit code, or 128 and the signal that ended it.
  int end_by(int signal) {
    int status = 0;
    ::kill(child_, signal);
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t child_ = -1;
};

TEST_F(Streams, DaemonsGoOnWithoutThem) {
  for (const char* streams : {">/dev/full 2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const std::string address = fmt::format("127.0.0.1:{}", free_port()), watched = at("watched"),
                      out = at("out");
    fs::create_directory(watched);
    write_model(watched + "/1.safetensors", small_model(1));
    ShellProgram publisher(
        fmt::format("publish --listen {} --watch '{}' {}", address, watched, streams));
    ShellProgram subscriber(fmt::format("subscribe {} --out '{}' {}", address, out, streams));
    EXPECT_TRUE(soon([&] {
      return fs::exists(out) && read_text(out) == read_text(watched + "/1.safetensors");
    })) << streams;
    {
      BackgroundProgram killed({"subscribe", address, "--out", at("killed")});
      EXPECT_FALSE(killed.version(1).is_null()) << killed.err();
      killed.end_by(SIGKILL);  // the publisher's library warns
    }
    fs::create_directory(watched + "/2.safetensors");  // the publisher warns
    write_model(at("next"), small_model(2));
    fs::rename(at("next"), watched + "/3.safetensors");
    EXPECT_TRUE(soon([&] { return read_text(out) == read_text(watched + "/3.safetensors"); }))
        << streams;
    const bool is_closed = std::string_view(streams).find("&-") != std::string_view::npos;
    for (const int number : {1, 2})
      EXPECT_EQ(publisher.descriptor(number), is_closed ? "/dev/null" : "/dev/full");
    EXPECT_EQ(publisher.end_by(SIGTERM), 0) << streams;
    EXPECT_EQ(subscriber.end_by(SIGTERM), 0) << streams;
    for (const std::string& each : {watched, out, at("killed")}) fs::remove_all(each);
  }
}

}  // namespace
}  // namespace sparcl::test
