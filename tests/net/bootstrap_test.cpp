#include "src/net/bootstrap/bootstrap.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "src/net/bootstrap/bootstrap_root.hpp"
#include "tests/net/remote_root.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::net {
namespace {

using test::ChildProcess;
using test::RemoteRoot;
using testing::HasSubstr;

constexpr double kLong = 60;  // never waited for, unless a test fails
const std::array<NetAddress, 1> kHere{loopback_address()};

std::unique_ptr<BootstrapRoot> start_root(const RootOptions& options = {}) {
  Result<std::unique_ptr<BootstrapRoot>> root = BootstrapRoot::start(kHere, options);
  EXPECT_TRUE(root.ok()) << root.status().message();
  return root.ok() ? std::move(*root) : nullptr;
}

std::vector<std::byte> blob_of(int rank, std::size_t bytes = 40) {
  std::vector<std::byte> blob(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    blob[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank) * 13);
  return blob;
}

struct Caller {
  int rank;
  int nranks;
  double timeout_s = kLong;
  std::size_t blob_bytes = 40;
};

// One thread a caller.
std::vector<Result<BlobTable>> gather(const UniqueId& id, const std::vector<Caller>& callers) {
  std::vector<Result<BlobTable>> results(callers.size(), Status(Code::kInternalError, "not run"));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < callers.size(); ++i) {
    threads.emplace_back([&, i] {
      const Caller& c = callers[i];
      results[i] = all_gather(id, c.nranks, c.rank, blob_of(c.rank, c.blob_bytes), c.timeout_s);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<Caller> ranks(int nranks, std::size_t blob_bytes = 40) {
  std::vector<Caller> callers;
  for (int rank = 0; rank < nranks; ++rank) callers.push_back({rank, nranks, kLong, blob_bytes});
  return callers;
}

void expect_table(const Result<BlobTable>& result, int nranks, std::size_t blob_bytes = 40) {
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->size(), static_cast<std::size_t>(nranks));
  for (int rank = 0; rank < nranks; ++rank)
    EXPECT_EQ((*result)[static_cast<std::size_t>(rank)], blob_of(rank, blob_bytes)) << rank;
}

void expect_error(const Result<BlobTable>& result, Code code, const std::string& part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(code_name(result.status().code()), std::string(code_name(code)))
      << result.status().message();
  EXPECT_THAT(result.status().message(), HasSubstr(part));
}

class BootstrapRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, BootstrapRanks, testing::Values(1, 2, 3, 8, 64));

TEST_P(BootstrapRanks, AllGetAll) {
  const auto root = start_root();
  for (const Result<BlobTable>& result : gather(root->id(), ranks(GetParam())))
    expect_table(result, GetParam());
}

TEST(Bootstrap, ManyRanks) {
  const int nranks = test::by_tier(200, 1000);
  const auto root = start_root();
  for (const Result<BlobTable>& result : gather(root->id(), ranks(nranks)))
    expect_table(result, nranks);
}

TEST(Bootstrap, EmptyAndLargestBlobs) {
  for (const std::size_t bytes : {std::size_t{0}, kMaxBlobBytes}) {
    const auto root = start_root();
    for (const Result<BlobTable>& result : gather(root->id(), ranks(16, bytes)))
      expect_table(result, 16, bytes);
  }
}

TEST(Bootstrap, SeveralIdsAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<BootstrapRoot>> roots;
  for (int i = 0; i < 4; ++i) roots.push_back(start_root());
  for (const auto& root : roots) {
    threads.emplace_back([&root] {
      for (const Result<BlobTable>& result : gather(root->id(), ranks(5))) expect_table(result, 5);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Bootstrap, BadArguments) {
  const auto root = start_root();
  const std::vector<std::byte> large(kMaxBlobBytes + 1);
  expect_error(all_gather(root->id(), 0, 0, {}, 1), Code::kInvalidArgument, "nranks is 0");
  expect_error(all_gather(root->id(), kMaxRanks + 1, 0, {}, 1), Code::kInvalidArgument, "nranks");
  expect_error(all_gather(root->id(), 2, 2, {}, 1), Code::kInvalidArgument,
               "rank is 2: expected 0 to 1");
  expect_error(all_gather(root->id(), 2, -1, {}, 1), Code::kInvalidArgument, "rank is -1");
  expect_error(all_gather(root->id(), 2, 0, large, 1), Code::kInvalidArgument, "65537 bytes");
  expect_error(all_gather(root->id(), 2, 0, {}, 0), Code::kInvalidArgument, "time-out");
}

TEST(Bootstrap, AnIdServesOnce) {
  const auto root = start_root();
  for (const Result<BlobTable>& result : gather(root->id(), ranks(3))) expect_table(result, 3);
  expect_error(all_gather(root->id(), 3, 1, {}, kLong), Code::kInvalidUsage,
               "has served a communicator of 3 ranks");
}

TEST(Bootstrap, TwoGiveOneRank) {
  const auto root = start_root();
  const auto results = gather(root->id(), {{0, 3}, {1, 3}, {1, 3}});
  for (const Result<BlobTable>& result : results)
    expect_error(result, Code::kInvalidUsage, "two processes are rank 1 of 3");
  expect_error(all_gather(root->id(), 3, 2, {}, kLong), Code::kInvalidUsage,
               "two processes are rank 1 of 3");  // a latecomer
}

TEST(Bootstrap, DifferentNumbersOfRanks) {
  const auto root = start_root();
  for (const Result<BlobTable>& result : gather(root->id(), {{0, 4}, {1, 4}, {2, 5}})) {
    expect_error(result, Code::kMismatch, "rank 2 (host");
    EXPECT_THAT(result.status().message(), HasSubstr("there are"));
  }
}

TEST(Bootstrap, ARankThatDeclinesEndsTheMeetingForAll) {
  const auto root = start_root();
  std::thread third(
      [&] { decline(root->id(), 2, Status(Code::kInvalidArgument, "it has no weights"), kLong); });
  for (const Result<BlobTable>& result : gather(root->id(), {{0, 3}, {1, 3}})) {
    expect_error(result, Code::kRemoteError, "rank 2 (host");
    EXPECT_THAT(result.status().message(), HasSubstr("cannot take part: it has no weights"));
  }
  third.join();
  expect_error(all_gather(root->id(), 3, 2, {}, kLong), Code::kRemoteError,
               "cannot take part");  // a latecomer
}

TEST(Bootstrap, ToDeclineTakesNoLongerThanItMay) {
  UniqueId nobody = start_root()->id();  // it has ended by now
  decline(nobody, 1, Status(Code::kInvalidArgument, "why"), 2);
}

TEST(Bootstrap, NamesRanksThatDoNotCome) {
  const auto root = start_root();
  for (const Result<BlobTable>& result :
       gather(root->id(), {{0, 8, 0.5}, {1, 8}, {3, 8}, {4, 8}})) {
    expect_error(result, Code::kTimeout, "ranks 2, 5-7 of 8 did not come within");
  }
}

TEST(Bootstrap, AllWhoWaitAreToldWhoIsMissing) {
  RootOptions quick;
  quick.note_s = 0.01;
  const auto root = start_root(quick);
  std::atomic<int> told = 0;
  const auto join = [&](int rank, std::function<void(const Note&)> on_note) {
    GatherOptions options;
    options.on_note = std::move(on_note);
    expect_table(all_gather(root->id(), 3, rank, blob_of(rank), kLong, options), 3);
  };
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      bool said = false;
      join(rank, [&](const Note& note) {
        if (note.text() == "2 of 3 ranks are here, missing: 1" && !std::exchange(said, true))
          ++told;
      });
    });
  }
  for (int i = 0; i < 3000 && told < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(told, 2);
  join(1, {});
  for (std::thread& thread : threads) thread.join();
}

bool accepts(std::uint16_t port) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

TEST(Bootstrap, NobodyIsAcceptedOnceLatecomersHaveHadTheirTime) {
  RootOptions brief;
  brief.linger_s = 0.05;
  const auto root = start_root(brief);
  ASSERT_TRUE(accepts(root->id().port));
  for (const Result<BlobTable>& result : gather(root->id(), ranks(2))) expect_table(result, 2);
  bool still = true;
  for (int i = 0; i < 3000 && still; ++i) {
    still = accepts(root->id().port);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(still);
}

TEST(Bootstrap, AWrongSecretIsAStranger) {
  const auto root = start_root();
  UniqueId wrong = root->id();
  wrong.secret[3] ^= std::byte{1};
  GatherOptions options;
  options.search.refused_s = 0.3;
  expect_error(all_gather(wrong, 2, 0, {}, kLong, options), Code::kRemoteError,
               "does not know the id's secret");
  expect_error(all_gather(wrong, 2, 0, {}, kLong, options), Code::kRemoteError,
               "The id is of another run, or was changed on its way");
  for (const Result<BlobTable>& result : gather(root->id(), ranks(2))) expect_table(result, 2);
}

TEST(Bootstrap, TriesOneAddressAfterTheOther) {
  const auto root = start_root();
  const auto foreign = start_root();  // another id's port
  UniqueId id = root->id();
  NetAddress nowhere = loopback_address(1);
  id.addresses = {nowhere, foreign->id().addresses[0], root->id().addresses[0]};
  for (const Result<BlobTable>& result : gather(id, ranks(3))) expect_table(result, 3);
}

TEST(Bootstrap, TheRootsEndIsAnError) {
  auto root = start_root();
  const UniqueId id = root->id();
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    root.reset();
  });
  GatherOptions options;
  options.search.refused_s = 0.5;
  expect_error(all_gather(id, 2, 0, {}, kLong, options), Code::kRemoteError,
               "the process that made the unique id");
  ending.join();
  expect_error(all_gather(id, 2, 1, {}, kLong, options), Code::kRemoteError,
               "cannot be reached at 127.0.0.1");
}

// Foreign programs on the port, while the ranks come.

Socket connected(const UniqueId& id) {
  Result<Socket> socket = start_connect(id.addresses[0]);
  EXPECT_TRUE(socket.ok());
  pollfd entry{socket->fd(), POLLOUT, 0};
  EXPECT_EQ(poll_until({&entry, 1}, monotonic_seconds() + kLong), 1);
  return std::move(*socket);
}

void say(const Socket& socket, std::string_view text) {
  (void)write_some(socket, std::as_bytes(std::span(text)));
}

bool ends(const Socket& socket) {
  std::array<std::byte, 4096> buffer;
  while (true) {
    pollfd entry{socket.fd(), POLLIN, 0};
    if (poll_until({&entry, 1}, monotonic_seconds() + kLong) == 0) return false;
    if (read_some(socket, buffer).kind == Moved::Kind::kClosed) return true;
  }
}

TEST(Bootstrap, StrangersAreNoBother) {
  const auto root = start_root({.handshake_s = 0.5});
  std::vector<Socket> silent, talking;
  for (int i = 0; i < 50; ++i) silent.push_back(connected(root->id()));
  for (const std::string_view text : {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "\x16\x03\x01", "x"}) {
    talking.push_back(connected(root->id()));
    say(talking.back(), text);
  }
  Nonce nonce{};
  const auto hello = encode_hello(nonce);
  const std::string_view greeting(reinterpret_cast<const char*>(hello.data()), hello.size());
  for (const std::size_t junk :
       {std::size_t{1}, std::size_t{79}, std::size_t{80}, std::size_t{100'000}}) {
    talking.push_back(connected(root->id()));
    say(talking.back(), greeting);
    say(talking.back(), std::string(junk, '\xff'));
  }
  for (const Result<BlobTable>& result : gather(root->id(), ranks(8))) expect_table(result, 8);
  for (const Socket& socket : silent) EXPECT_TRUE(ends(socket));
  for (const Socket& socket : talking) EXPECT_TRUE(ends(socket));
}

TEST(Bootstrap, TooManyStrangersMakeRoom) {
  const auto root = start_root({.max_unauthenticated = 4, .evict_s = 0.05});
  std::vector<Socket> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connected(root->id()));
  for (const Result<BlobTable>& result : gather(root->id(), ranks(12))) expect_table(result, 12);
}

// What one rank said on its connection is of no use on another one.
// Strangers that fill the root's room push out a rank that is slow to say its join: it comes again.
TEST(Bootstrap, ARankThatWasDroppedComesAgain) {
  RootOptions crowded;
  crowded.handshake_s = 0.2;  // its join comes later, the first time
  const auto root = start_root(crowded);
  // A way to the root that holds back what comes after the hello.
  Result<Socket> listener = listen_at(loopback_address(), 4);
  ASSERT_TRUE(listener.ok());
  std::atomic<int> connections{0};
  std::atomic<bool> is_over{false};
  std::thread way([&] {
    while (!is_over) {
      pollfd entry{listener->fd(), POLLIN, 0};
      if (poll_until({&entry, 1}, monotonic_seconds() + 0.05) == 0) continue;
      const Socket rank(::accept4(listener->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const Socket to_root = connected(root->id());
      const bool is_first = ++connections == 1;
      std::size_t from_rank = 0;
      for (bool is_open = true; is_open && !is_over;) {
        std::array<pollfd, 2> ends{{{rank.fd(), POLLIN, 0}, {to_root.fd(), POLLIN, 0}}};
        poll_until(ends, monotonic_seconds() + 0.05);
        std::array<std::byte, 4096> bytes;
        for (const auto& [from, to] :
             {std::pair<const Socket&, const Socket&>(rank, to_root), {to_root, rank}}) {
          const Moved moved = read_some(from, bytes);
          is_open = is_open && moved.kind != Moved::Kind::kClosed;
          if (moved.kind != Moved::Kind::kBytes) continue;
          if (&from == &rank && is_first && from_rank >= kHelloBytes)
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
          if (&from == &rank) from_rank += moved.bytes;
          (void)write_some(to, std::span(bytes).first(moved.bytes));
        }
      }
    }
  });
  UniqueId slow = root->id();
  slow.addresses = {*local_address(*listener)};
  std::thread other([&] { expect_table(all_gather(root->id(), 2, 0, blob_of(0), kLong), 2); });
  expect_table(all_gather(slow, 2, 1, blob_of(1), kLong), 2);
  other.join();
  is_over = true;
  way.join();
  EXPECT_EQ(connections, 2);
}

TEST(Bootstrap, NothingCanBeReplayed) {
  const auto root = start_root({.handshake_s = 0.5});
  const Secret& secret = root->id().secret;
  const auto talk = [&](const BootstrapSession* old, const Join& join) {
    Nonce nonce{};
    ByteLine line(connected(root->id()));
    line.queue(encode_hello(nonce));
    EXPECT_EQ(line.write(), ByteLine::Progress::kDone);
    line.expect(kChallengeBytes);
    while (line.read() == ByteLine::Progress::kMore) std::this_thread::yield();
    const Result<BootstrapSession> session = check_challenge(secret, nonce, line.received());
    EXPECT_TRUE(session.ok());
    auto records = std::make_unique<RecordLine>(std::move(line), old != nullptr ? *old : *session,
                                                Side::kRank, 1000);
    const auto payload = RecordLine::make_payload(RecordKind::kJoin, encode_join(join));
    EXPECT_TRUE(records->queue(*payload).ok());
    EXPECT_EQ(records->line().write(), ByteLine::Progress::kDone);
    return std::pair(*session, std::move(records));
  };
  Join join;
  join.rank = 0;
  join.nranks = 2;
  join.patience_ms = 100'000;
  const auto first = talk(nullptr, join);
  const auto second = talk(&first.first, join);
  EXPECT_TRUE(ends(second.second->line().socket()));
  expect_table({all_gather(root->id(), 2, 1, {}, kLong)}, 2,
               0);  // rank 0 was admitted once, and has no blob
}

// Processes.

std::string text_of(const Result<BlobTable>& result) {
  return result.ok() ? "ok" : result.status().message();
}

GatherOptions hasty() {
  GatherOptions options;
  options.search.refused_s = 0.5;
  options.search.search_s = 5;
  options.silence_s = 3;
  return options;
}

TEST(BootstrapProcesses, Meet) {
  const RemoteRoot root;
  std::vector<ChildProcess> processes;
  for (int rank = 0; rank < 7; ++rank) {
    processes.emplace_back([&, rank] {
      const auto table = all_gather(root.id, 7, rank, blob_of(rank), kLong);
      return table.ok() && (*table)[6] == blob_of(6) ? "ok" : text_of(table);
    });
  }
  for (ChildProcess& process : processes) EXPECT_EQ(process.text(), "ok");
}

// In a process of its own, as its threads stay until the end.
TEST(BootstrapProcesses, MakeIdsThatServe) {
  ChildProcess maker([]() -> std::string {
    for (int i = 0; i < 40; ++i) {
      const auto bytes = make_unique_id();
      if (!bytes.ok()) return bytes.status().message();
      const Result<UniqueId> id = decode_unique_id(*bytes);
      if (!id.ok()) return id.status().message();
      for (const Result<BlobTable>& result : gather(*id, ranks(2))) {
        if (!result.ok()) return result.status().message();
      }
    }
    return "ok";
  });
  EXPECT_EQ(maker.text(), "ok");
}

// The exit of a process that made ids, and of a child that it forked, which has the ids but not
// their threads.
TEST(BootstrapProcesses, EndWithIdsLeft) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "LeakSanitizer takes what threads held that a child of fork() does not have for lost";
#endif
  ChildProcess maker([]() -> std::string {
    for (int i = 0; i < 3; ++i) {
      if (const auto bytes = make_unique_id(); !bytes.ok()) return bytes.status().message();
    }
    if (fork() == 0) std::exit(0);
    int status = -1;
    ::wait(&status);
    if (status != 0) return fmt::format("the child's status is {}", status);
    std::exit(7);
  });
  EXPECT_EQ(maker.text(), "");
  EXPECT_EQ(WEXITSTATUS(maker.status()), 7);
}

TEST(BootstrapProcesses, AKilledRootIsKnown) {
  const RemoteRoot root;
  ChildProcess waiting([&] { return text_of(all_gather(root.id, 2, 0, {}, kLong, hasty())); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  root.process.kill(SIGKILL);
  EXPECT_THAT(waiting.text(), testing::AnyOf(HasSubstr("ended before all ranks had come"),
                                             HasSubstr("cannot be reached")));
  ChildProcess late([&] { return text_of(all_gather(root.id, 2, 1, {}, kLong, hasty())); });
  EXPECT_THAT(late.text(), HasSubstr("cannot be reached at 127.0.0.1"));
}

TEST(BootstrapProcesses, AStoppedRootIsKnown) {
  const RemoteRoot root;
  ChildProcess waiting([&] { return text_of(all_gather(root.id, 2, 0, {}, kLong, hasty())); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const test::StoppedProcess stopped(root.process);
  EXPECT_THAT(waiting.text(),
              testing::AnyOf(HasSubstr("has been silent for 3 s"), HasSubstr("no answer")));
}

TEST(BootstrapProcesses, AKilledRankIsNamed) {
  const RemoteRoot root;
  ChildProcess victim([&] { return text_of(all_gather(root.id, 3, 2, {}, kLong, hasty())); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ChildProcess waiting([&] { return text_of(all_gather(root.id, 3, 0, {}, kLong, hasty())); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::string name =
      fmt::format("pid {}) ended, or gave up, while it waited for rank", victim.pid());
  victim.kill(SIGKILL);
  EXPECT_THAT(waiting.text(), HasSubstr(name));
}

TEST(BootstrapProcesses, TooFewDescriptorsAreNamed) {
  const RemoteRoot root(24);
  for (const Result<BlobTable>& result : gather(root.id, ranks(64)))
    expect_error(result, Code::kSystemError, "ulimit -n");
}

}  // namespace
}  // namespace sparcl::net
