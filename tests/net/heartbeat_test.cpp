#include "src/net/heartbeat/heartbeat.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "src/net/bootstrap/bootstrap.hpp"
#include "src/net/heartbeat/datagram_sockets.hpp"
#include "src/net/heartbeat/heartbeat_message.hpp"
#include "src/net/heartbeat/heartbeat_service.hpp"
#include "src/trust/sha256.hpp"
#include "tests/net/remote_root.hpp"

namespace sparcl::net {
namespace {

using test::ChildProcess;
using test::RemoteRoot;
using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr double kNeverWaited = 60;  // never waited for, unless a test fails

// Nobody is found dead by silence here.
HeartbeatOptions patient() {
  HeartbeatOptions options;
  options.period_s = 0.02;
  options.silence_s = 1000;
  options.left_grace_s = 0.2;
  return options;
}

HeartbeatOptions without_kernel() {
  HeartbeatOptions options = patient();
  options.use_processes = false;
  return options;
}

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// Watches `peers` until one of them is dead, and says what is known of it; "" at the end of the
// time.
std::string first_death(Heartbeat& heartbeat, const std::vector<int>& peers,
                        double seconds = kNeverWaited) {
  for (const double until = monotonic_seconds() + seconds; monotonic_seconds() < until; nap()) {
    for (const int peer : peers) {
      heartbeat.watch(peer);
      if (heartbeat.deaths() == 0) continue;
      if (const std::optional<Status> status = heartbeat.dead(peer)) return status->message();
    }
  }
  return "";
}

// Waits for the first answers of `peers`.
bool hear(Heartbeat& heartbeat, const std::vector<int>& peers) {
  const double until = monotonic_seconds() + kNeverWaited;
  for (const int peer : peers) {
    for (; !heartbeat.has_answered(peer); nap()) {
      heartbeat.watch(peer);
      if (monotonic_seconds() > until) return false;
    }
  }
  return true;
}

using Service = std::shared_ptr<HeartbeatService>;
Service make_service() {
  Result<Service> made = HeartbeatService::create();
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

// Ranks with a port each, as processes have; or all with the same one.
struct Ranks {
  explicit Ranks(int count, const HeartbeatOptions& options = patient(),
                 const Service& shared = {}) {
    for (int rank = 0; rank < count; ++rank) {
      Result<std::unique_ptr<Heartbeat>> opened =
          Heartbeat::open(options, shared != nullptr ? shared : make_service());
      EXPECT_TRUE(opened.ok()) << opened.status().message();
      cards.push_back((*opened)->card());
      heartbeats.push_back(std::move(*opened));
    }
  }
  void start() {
    for (std::size_t rank = 0; rank < heartbeats.size(); ++rank)
      EXPECT_TRUE(heartbeats[rank]->start(static_cast<int>(rank), cards).ok());
  }

  std::vector<std::vector<std::byte>> cards;
  std::vector<std::unique_ptr<Heartbeat>> heartbeats;
};

TEST(Heartbeat, ManyPeersLiveUntilOneIsGone) {
  HeartbeatOptions options = patient();
  options.greetings = 5;
  std::vector<WakeEvent> events;  // they outlive who sets them
  Ranks ranks(30, options);
  ranks.start();
  std::vector<int> all;
  events.reserve(30);
  for (int rank = 0; rank < 30; ++rank) {
    all.push_back(rank);
    events.push_back(std::move(*WakeEvent::create()));
    ranks.heartbeats[static_cast<std::size_t>(rank)]->set_event(&events.back());
  }
  for (int rank = 0; rank < 30; ++rank) {
    std::vector<int> others = all;
    others.erase(others.begin() + rank);
    Heartbeat& heartbeat = *ranks.heartbeats[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(hear(heartbeat, others));
    EXPECT_EQ(first_death(heartbeat, all, 0.02), "");
  }
  ranks.heartbeats[7].reset();
  for (std::size_t rank = 0; rank < 30; ++rank) {
    if (rank == 7) continue;
    EXPECT_THAT(
        first_death(*ranks.heartbeats[rank], all),
        MatchesRegex("rank 7 \\(host .*, pid .*\\) was killed or ended: its port is closed"));
    pollfd entry{events[rank].fd(), POLLIN, 0};
    EXPECT_EQ(poll_until({&entry, 1}, 0), 1);
    EXPECT_EQ(ranks.heartbeats[rank]->deaths(), 1U);
  }
}

TEST(Heartbeat, WhoLeavesIsNamedSoWhereItIsWaitedFor) {
  Ranks ranks(3);
  ranks.start();
  ranks.heartbeats[1]->leave();
  ranks.heartbeats[1].reset();
  EXPECT_THAT(first_death(*ranks.heartbeats[0], {1}),
              MatchesRegex("rank 1 \\(host .*, pid .*\\) has left the communicator"));
  EXPECT_EQ(first_death(*ranks.heartbeats[2], {0}, 0.5), "");
  EXPECT_EQ(ranks.heartbeats[2]->deaths(), 0U);
}

TEST(Heartbeat, TellsWhoEndedFirst) {
  Ranks ranks(4);
  ranks.start();
  EXPECT_TRUE(hear(*ranks.heartbeats[0], {1, 2, 3}));
  for (const int ended : {2, 3, 1}) {
    ranks.heartbeats[static_cast<std::size_t>(ended)].reset();
    EXPECT_THAT(first_death(*ranks.heartbeats[0], {ended}),
                HasSubstr(fmt::format("rank {} ", ended)));
  }
  std::vector<int> order;
  for (const Heartbeat::Obituary& each : ranks.heartbeats[0]->obituaries())
    order.push_back(each.rank);
  EXPECT_THAT(order, testing::ElementsAre(2, 3, 1));
}

TEST(Heartbeat, CommunicatorsDoNotMeet) {
  Ranks one(2), other(2);
  one.start();
  other.start();
  EXPECT_TRUE(hear(*one.heartbeats[0], {1}));
  EXPECT_TRUE(hear(*other.heartbeats[0], {1}));
  one.heartbeats[1].reset();
  EXPECT_THAT(first_death(*one.heartbeats[0], {1}), HasSubstr("rank 1"));
  EXPECT_EQ(first_death(*other.heartbeats[0], {1}, 0.2), "");
}

// As behind a firewall that refuses, or drops: whoever never answered is not found dead.
TEST(Heartbeat, SilenceAndRefusalsOfAPeerNeverHeardMeanNothing) {
  HeartbeatOptions options = patient();
  options.silence_s = 0.1;
  Ranks ranks(3, options);
  ranks.heartbeats[1].reset();  // its port is closed: refuses
  EXPECT_TRUE(ranks.heartbeats[0]->start(0, ranks.cards).ok());
  EXPECT_EQ(first_death(*ranks.heartbeats[0], {1, 2}, 1), "");  // 2 never starts: silent
}

TEST(Heartbeat, APeerWithoutOneIsLeftAlone) {
  Ranks ranks(2);
  ranks.cards[1].clear();
  EXPECT_TRUE(ranks.heartbeats[0]->start(0, ranks.cards).ok());
  EXPECT_EQ(first_death(*ranks.heartbeats[0], {0, 1, -1, 2, 1'000'000}, 0.2), "");
  EXPECT_EQ(ranks.heartbeats[0]->describe(1), "");
}

TEST(Heartbeat, ALoneRankStartsAndLeaves) {
  Ranks ranks(1);
  ranks.start();
  ranks.heartbeats[0]->leave();
  EXPECT_EQ(ranks.heartbeats[0]->deaths(), 0U);
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.exists() ? 1 : 0;
  return count;
}

std::uint16_t port_of(const std::vector<std::byte>& card) { return decode_card(card)->port_v4; }

// Communicators of two processes, `count` of them: rank 0 of each is of one process, rank 1 of the
// other.
struct TwoProcesses {
  explicit TwoProcesses(int count, const HeartbeatOptions& options = patient())
      : first(make_service()), second(make_service()) {
    for (int i = 0; i < count; ++i) {
      Ranks& made = *comms.emplace_back(std::make_unique<Ranks>(0));
      for (const Service& service : {first, second}) {
        made.heartbeats.push_back(std::move(*Heartbeat::open(options, service)));
        made.cards.push_back(made.heartbeats.back()->card());
      }
    }
  }
  void start() {
    for (const auto& comm : comms) comm->start();
  }
  // The second process is gone at once, with its port.
  void kill_second() {
    second.reset();
    for (const auto& comm : comms) comm->heartbeats[1].reset();
  }
  Heartbeat& of(std::size_t comm, std::size_t rank) { return *comms[comm]->heartbeats[rank]; }

  Service first, second;
  std::vector<std::unique_ptr<Ranks>> comms;
};

TEST(Heartbeat, CommunicatorsOfAProcessShareOnePortOneThreadAndItsDescriptors) {
  const auto first = Heartbeat::open(patient());
  ASSERT_TRUE(first.ok());
  const std::size_t descriptors = entries_of("/proc/self/fd"),
                    threads = entries_of("/proc/self/task");
  std::vector<std::unique_ptr<Heartbeat>> more;
  for (int i = 0; i < 500; ++i) {
    more.push_back(std::move(*Heartbeat::open(patient())));
    ASSERT_TRUE(
        more.back()->start(0, std::vector{more.back()->card(), std::vector<std::byte>()}).ok());
    EXPECT_EQ(port_of(more.back()->card()), port_of((*first)->card()));
    EXPECT_NE(more.back()->card(), (*first)->card());  // the communicator's token comes of it
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

TEST(Heartbeat, TheLastCommunicatorEndsTheThread) {
  const std::size_t descriptors = entries_of("/proc/self/fd"),
                    threads = entries_of("/proc/self/task");
  for (int i = 0; i < 3; ++i) {
    Ranks ranks(2, patient(), *HeartbeatService::of_process());
    ranks.start();
    EXPECT_TRUE(hear(*ranks.heartbeats[0], {1}));
    EXPECT_GT(entries_of("/proc/self/fd"), descriptors);
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

TEST(Heartbeat, AKilledProcessIsNamedInEachOfItsCommunicators) {
  TwoProcesses all(20, without_kernel());
  all.start();
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(hear(all.of(i, 0), {1}));
  all.kill_second();
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_THAT(first_death(all.of(i, 0), {1}), HasSubstr("rank 1 ")) << "communicator " << i;
}

TEST(Heartbeat, TheEndOfOneCommunicatorDisturbsNoOther) {
  TwoProcesses all(3);
  all.start();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(hear(all.of(i, 0), {1}));
  all.of(1, 1).leave();
  EXPECT_THAT(first_death(all.of(1, 0), {1}), HasSubstr("has left the communicator"));
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}})
    EXPECT_EQ(first_death(all.of(i, 0), {1}, 0.1), "");
  all.of(2, 0).go_on_without(1);
  EXPECT_THAT(first_death(all.of(2, 1), {0}), HasSubstr("has given rank 1 up"));
  EXPECT_EQ(first_death(all.of(0, 0), {1}, 0.1), "");
  EXPECT_EQ(first_death(all.of(0, 1), {0}, 0.1), "");
}

// Ranks may be threads of one process.
TEST(Heartbeat, RanksOfOneProcessHearEachOther) {
  Ranks ranks(3, patient(), make_service());
  ranks.start();
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(
        hear(*ranks.heartbeats[static_cast<std::size_t>(rank)], {(rank + 1) % 3, (rank + 2) % 3}));
  ranks.heartbeats[2]->leave();
  EXPECT_THAT(first_death(*ranks.heartbeats[0], {2}), HasSubstr("has left the communicator"));
}

// A goodbye may be lost, as here one that comes before rank 0 has begun; the process, and so its
// port, are still there.
TEST(Heartbeat, ARankThatLeftSaysSoAgainWhenItIsAsked) {
  TwoProcesses all(2);
  EXPECT_TRUE(all.of(0, 1).start(1, all.comms[0]->cards).ok());
  all.of(0, 1).leave();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(all.of(0, 0).start(0, all.comms[0]->cards).ok());
  EXPECT_THAT(first_death(all.of(0, 0), {1}), HasSubstr("has left the communicator"));
}

// Rank 0's greeting comes before rank 1 has begun. It is known all the same that rank 1 answers,
// although nobody waits for it.
TEST(Heartbeat, WhoBeginsLateIsHeard) {
  TwoProcesses all(1);
  EXPECT_TRUE(all.of(0, 0).start(0, all.comms[0]->cards).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(all.of(0, 1).start(1, all.comms[0]->cards).ok());
  for (const double until = monotonic_seconds() + kNeverWaited;
       !all.of(0, 0).has_answered(1) && monotonic_seconds() < until;)
    nap();
  EXPECT_TRUE(all.of(0, 0).has_answered(1));
}

// A stranger beside rank 1 of a communicator, who may or may not know the token.
struct Stranger {
  explicit Stranger(const Ranks& ranks) : sockets(std::move(*DatagramSockets::open())) {
    trust::Sha256 all;
    for (const auto& card : ranks.cards) all.update(card);
    const auto digest = all.finish();
    good.token = load_le<std::uint64_t>(std::as_bytes(std::span(*digest)).data());
    good.from = 1;
    good.to = 0;
    const std::optional<HeartbeatCard> card = decode_card(ranks.cards[0]);
    target = loopback_address(card->port_v4);
  }
  void send(const Beat& beat) const { sockets.send(target, encode_beat(beat)); }

  // What comes back, until a ping that has to be answered is.
  std::vector<Beat> answers() const {
    Beat last = good;
    last.sequence = 4711;
    send(last);
    std::vector<Beat> all;
    std::array<std::byte, 100> space;
    for (const double until = monotonic_seconds() + kNeverWaited; monotonic_seconds() < until;) {
      std::array<pollfd, 2> entries{pollfd{sockets.descriptors()[0], POLLIN, 0},
                                    pollfd{sockets.descriptors()[1], POLLIN, 0}};
      poll_until(entries, until);
      while (const auto datagram = sockets.receive(space)) {
        const std::optional<Beat> beat = decode_beat(datagram->bytes);
        EXPECT_TRUE(beat && datagram->whole);  // no answer is larger than its question
        all.push_back(beat.value_or(Beat{}));
        if (all.back().sequence == 4711) return all;
      }
    }
    return all;
  }

  DatagramSockets sockets;
  Beat good;
  NetAddress target;
};

TEST(Heartbeat, AnswersOnlyItsOwn) {
  Ranks ranks(2);
  const Stranger stranger(ranks);
  EXPECT_TRUE(ranks.heartbeats[0]->start(0, ranks.cards).ok());
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{33}, std::size_t{65'000}}) {
    stranger.sockets.send(stranger.target, std::vector<std::byte>(bytes, std::byte{0x5a}));
  }
  BeatBytes bytes = encode_beat(stranger.good);
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back({});
  stranger.sockets.send(stranger.target, longer);
  Beat wrong = stranger.good;
  wrong.token ^= 1;
  stranger.send(wrong);
  wrong = stranger.good;
  wrong.to = 1;
  stranger.send(wrong);
  wrong = stranger.good;
  wrong.from = 2;
  stranger.send(wrong);
  wrong.from = 0;
  stranger.send(wrong);
  const std::vector<Beat> answers = stranger.answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].kind, BeatKind::kPong);
  EXPECT_EQ(answers[0].from, 0U);
  EXPECT_EQ(answers[0].to, 1U);
}

TEST(Heartbeat, AnswersToNoQuestionMeanNothing) {
  Ranks ranks(2);
  const Stranger stranger(ranks);
  ranks.start();
  for (std::uint64_t sequence = 0; sequence < 50; ++sequence) {
    for (const BeatKind kind : {BeatKind::kOut, BeatKind::kPong}) {
      Beat beat = stranger.good;
      beat.kind = kind;
      beat.sequence = sequence * 0x0123456789abcdef;
      stranger.send(beat);
    }
  }
  EXPECT_EQ(first_death(*ranks.heartbeats[0], {1}, 0.2), "");
  EXPECT_EQ(stranger.answers().size(), 1U);
}

// Who was given up, and asks, is told so.
TEST(Heartbeat, TheGivenUpAreTold) {
  Ranks ranks(2);
  const Stranger stranger(ranks);
  ranks.start();
  EXPECT_TRUE(hear(*ranks.heartbeats[0], {1}));
  ranks.heartbeats[1].reset();
  EXPECT_NE(first_death(*ranks.heartbeats[0], {1}), "");
  const std::vector<Beat> answers = stranger.answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].kind, BeatKind::kOut);
}

bool is_sure(const Heartbeat& heartbeat, int rank) {
  for (const Heartbeat::Obituary& each : heartbeat.obituaries()) {
    if (each.rank == rank) return each.is_sure;
  }
  ADD_FAILURE() << "nothing is known of rank " << rank;
  return false;
}

bool comes_true(const std::function<bool()>& what) {
  for (const double until = monotonic_seconds() + kNeverWaited; monotonic_seconds() < until;
       nap()) {
    if (what()) return true;
  }
  return false;
}

// Without asking, and again when it asks; also after the end of what the two had in common. Others
// hear a goodbye.
TEST(Heartbeat, WhoIsLeftOutIsToldSo) {
  Ranks ranks(3);
  const Stranger stranger(ranks);  // as rank 1
  ranks.start();
  EXPECT_TRUE(hear(*ranks.heartbeats[0], {1, 2}));
  ranks.heartbeats[0]->go_on_without(1);
  EXPECT_TRUE(comes_true([&] { return ranks.heartbeats[1]->deaths() == 1; }));
  EXPECT_THAT(ranks.heartbeats[1]->dead(0)->message(), HasSubstr("has given rank 1 up"));
  EXPECT_FALSE(is_sure(*ranks.heartbeats[1], 0));
  ranks.heartbeats[0]->retire();
  EXPECT_THAT(first_death(*ranks.heartbeats[2], {0}), HasSubstr("has left the communicator"));
  EXPECT_TRUE(is_sure(*ranks.heartbeats[2], 0));
  const std::vector<Beat> answers = stranger.answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].kind, BeatKind::kOut);
}

// No goodbye, and the word that it goes on, although its port was found closed before.
TEST(Heartbeat, WhoGoesOnElsewhereHasNotEnded) {
  Ranks ranks(2);
  const Stranger stranger(ranks);
  ranks.start();
  EXPECT_TRUE(hear(*ranks.heartbeats[0], {1}));
  ranks.heartbeats[1].reset();
  EXPECT_THAT(first_death(*ranks.heartbeats[0], {1}), HasSubstr("its port is closed"));
  EXPECT_TRUE(is_sure(*ranks.heartbeats[0], 1));
  Beat word = stranger.good;
  word.kind = BeatKind::kGoesOn;
  stranger.send(word);
  EXPECT_TRUE(comes_true([&] { return !is_sure(*ranks.heartbeats[0], 1); }));
}

TEST(Heartbeat, APeerThatNeverAnsweredMakesNoOthersEndDoubtful) {
  HeartbeatOptions options = without_kernel();
  options.silence_s = 3;
  Ranks ranks(3, options);
  for (const int rank : {0, 1})
    EXPECT_TRUE(ranks.heartbeats[static_cast<std::size_t>(rank)]->start(rank, ranks.cards).ok());
  EXPECT_TRUE(hear(*ranks.heartbeats[0], {1}));
  EXPECT_EQ(first_death(*ranks.heartbeats[0], {1, 2}, 0.7 * options.silence_s), "");
  ranks.heartbeats[1].reset();
  EXPECT_THAT(first_death(*ranks.heartbeats[0], {1}),
              MatchesRegex("rank 1 .*: its port is closed"));
  EXPECT_TRUE(is_sure(*ranks.heartbeats[0], 1));
}

TEST(Heartbeat, OptionsComeFromSettings) {
  unsetenv("SPARCL_HEARTBEAT");
  Result<std::optional<HeartbeatOptions>> options = heartbeat_options();
  ASSERT_TRUE(options.ok() && options->has_value());
  EXPECT_EQ((*options)->period_s, 0.1);
  EXPECT_EQ((*options)->silence_s, 5);
  setenv("SPARCL_HEARTBEAT_MS", "400", 1);
  setenv("SPARCL_LIVENESS_S", "0.5", 1);
  options = heartbeat_options();
  EXPECT_EQ((*options)->period_s, 0.4);
  EXPECT_GE((*options)->silence_s, 3 * 0.4);
  setenv("SPARCL_HEARTBEAT", "off", 1);
  EXPECT_FALSE(heartbeat_options()->has_value());
  options = heartbeat_options(true);  // as a config may say: the other settings count all the same
  ASSERT_TRUE(options.ok() && options->has_value());
  EXPECT_EQ((*options)->period_s, 0.4);
  EXPECT_LT((*options)->silence_s, 5);
  unsetenv("SPARCL_HEARTBEAT");
  EXPECT_FALSE(heartbeat_options(false)->has_value());
  setenv("SPARCL_HEARTBEAT_MS", "501", 1);
  EXPECT_EQ(heartbeat_options().status().code(), Code::kInvalidArgument);
  EXPECT_THAT(heartbeat_options().status().message(),
              MatchesRegex("SPARCL_LIVENESS_S=0.5 is shorter .*SPARCL_HEARTBEAT_MS=501.*"));
  setenv("SPARCL_HEARTBEAT_MS", "0", 1);
  EXPECT_EQ(heartbeat_options().status().code(), Code::kInvalidArgument);
  EXPECT_THAT(heartbeat_options().status().message(),
              MatchesRegex("SPARCL_HEARTBEAT_MS=0: .*SPARCL_HEARTBEAT=off.*"));
  setenv("SPARCL_HEARTBEAT", "off", 1);
  EXPECT_FALSE(heartbeat_options()->has_value());
  setenv("SPARCL_HEARTBEAT", "maybe", 1);
  EXPECT_EQ(heartbeat_options().status().code(), Code::kInvalidArgument);
  for (const char* name : {"SPARCL_HEARTBEAT", "SPARCL_HEARTBEAT_MS", "SPARCL_LIVENESS_S"})
    unsetenv(name);
}

// Processes. Each rank meets the others, then does its part, and says what it found.
class BeatingParty {
 public:
  template <class Part>
  BeatingParty(int count, const HeartbeatOptions& options, Part part) {
    for (int rank = 0; rank < count; ++rank) {
      processes.emplace_back([&, rank](int out) -> std::string {
        Result<std::unique_ptr<Heartbeat>> heartbeat = Heartbeat::open(options);
        if (!heartbeat.ok()) return heartbeat.status().message();
        const Result<BlobTable> cards =
            all_gather(root.id, count, rank, (*heartbeat)->card(), kNeverWaited);
        if (!cards.ok()) return cards.status().message();
        const Status started = (*heartbeat)->start(rank, *cards);
        if (!started.ok()) return started.message();
        return part(**heartbeat, rank, out);
      });
    }
  }
  ChildProcess& operator[](std::size_t rank) { return processes[rank]; }
  std::string name(std::size_t rank) {
    return fmt::format("rank {} (host {}, pid {})", rank, own_host(), processes[rank].pid());
  }

 private:
  static std::string own_host() { return own_identity().host; }
  RemoteRoot root;
  std::vector<ChildProcess> processes;
};

void say(int out, char sign) { (void)!write(out, &sign, 1); }

// All hear of each other; '.' says so. Then rank 2 is waited for.
std::string watch_rank_2(Heartbeat& heartbeat, int rank, int out) {
  if (!hear(heartbeat, {(rank + 1) % 3, (rank + 2) % 3})) return "not heard";
  say(out, '.');
  return first_death(heartbeat, {rank == 2 ? 0 : 2});
}

TEST(HeartbeatProcesses, AChildOfForkHasItsOwnPort) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no new thread in a child of a process that has several";
#endif
  const auto parents = Heartbeat::open(patient());
  ASSERT_TRUE(parents.ok());
  const std::uint16_t port = port_of((*parents)->card());
  ChildProcess child([&]() -> std::string {
    const auto own = Heartbeat::open(patient());
    if (!own.ok()) return own.status().message();
    return port_of((*own)->card()) != port ? "another port" : "the parent's port";
  });
  EXPECT_EQ(child.text(), "another port");
}

TEST(HeartbeatProcesses, AKilledPeerIsNamedByItsPort) {
  BeatingParty party(3, without_kernel(), watch_rank_2);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(party[rank].text(1), ".");
  const std::string ended = party.name(2) + " was killed or ended";
  party[2].kill(SIGKILL);
  const std::vector<std::string> texts{party[0].text(), party[1].text()};
  // The other may come to the closed port of the first one before, which has ended by then: it
  // knows of rank 2 by its word.
  EXPECT_THAT(texts, testing::Each(AnyOf(ended, ended + ": its port is closed")));
  EXPECT_THAT(texts, testing::Contains(ended + ": its port is closed"));
}

TEST(HeartbeatProcesses, AKilledPeerIsNamedByTheKernel) {
  BeatingParty party(3, patient(), watch_rank_2);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(party[rank].text(1), ".");
  const std::string expected = party.name(2) + " was killed or ended";
  party[2].kill(SIGKILL);
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_THAT(party[rank].text(), HasSubstr(expected));
}

TEST(HeartbeatProcesses, APeerThatLeftIsNoneThatWasKilled) {
  BeatingParty party(3, patient(), [](Heartbeat& heartbeat, int rank, int out) -> std::string {
    if (!hear(heartbeat, {(rank + 1) % 3, (rank + 2) % 3})) return "not heard";
    say(out, '.');
    if (rank != 2) return first_death(heartbeat, {2});
    heartbeat.leave();
    return "";
  });
  const std::string expected = party.name(2) + " has left the communicator";
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(party[rank].text(), "." + expected);
}

// Rank 2 is stopped, is given up by the others, goes on, and is told so.
TEST(HeartbeatProcesses, AStoppedPeerIsGivenUpAndLearnsIt) {
  HeartbeatOptions options = without_kernel();
  options.silence_s = 2;
  BeatingParty party(3, options, [](Heartbeat& heartbeat, int rank, int out) -> std::string {
    std::string found = watch_rank_2(heartbeat, rank, out);
    (void)!write(out, found.data(), found.size());
    say(out, '\n');
    if (rank != 2) pause();  // alive until the end of the test, to answer
    return "";
  });
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(party[rank].text(1), ".");
  {
    const test::StoppedProcess stopped(party[2]);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::string line;
      while (line.empty() || line.back() != '\n') {
        const std::string next = party[rank].text(1);
        if (next.empty()) break;
        line += next;
      }
      EXPECT_THAT(line, HasSubstr(party.name(2) + " has not answered for"));
      EXPECT_THAT(line, HasSubstr("s: it is stopped, or cut off"));
    }
  }
  EXPECT_THAT(party[2].text(), HasSubstr("has given rank 2 up"));
}

}  // namespace
}  // namespace sparcl::net
