// What a group of replicas shows next, by what each of them can show.

#include "src/replication/group_choice.hpp"

#include <gtest/gtest.h>

namespace sparcl::replication {
namespace {

using Next = GroupChoice::Next;
constexpr std::uint64_t kEpoch = 5;

GroupMember member(std::uint64_t shown, const std::vector<std::uint64_t>& ready,
                   std::uint64_t epoch = kEpoch) {
  GroupMember made;
  if (shown != 0) made.can.shown = {kEpoch, shown};
  for (const std::uint64_t each : ready) made.can.ready.push_back({epoch, each});
  return made;
}

void expect(const std::vector<GroupMember>& members, Next next, std::uint64_t version) {
  std::vector<std::byte> all;
  for (const GroupMember& each : members) {
    const auto bytes = serialise(each);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  const Result<std::vector<GroupMember>> told = parse_group(all);
  ASSERT_TRUE(told.ok());
  const GroupChoice choice = choose(*told);
  EXPECT_EQ(choice.next, next);
  EXPECT_EQ(choice.version.version, version);
}

TEST(GroupChoice, ShowsTheHighestVersionThatAllCanShow) {
  expect({member(4, {5, 6}), member(4, {5}), member(4, {5, 6, 7})}, Next::kCommit, 5);
  expect({member(4, {5, 6}), member(4, {6, 7})}, Next::kCommit, 6);
  expect({member(0, {9})}, Next::kCommit, 9);
}

TEST(GroupChoice, AMemberThatShowsTheVersionHasPreparedIt) {
  expect({member(6, {}), member(4, {5, 6}), member(6, {7})}, Next::kCommit, 6);
  expect({member(6, {7}), member(6, {7})}, Next::kCommit, 7);
}

TEST(GroupChoice, MembersThatAreBehindWantTheNewestVersionOfAny) {
  expect({member(4, {5, 6}), member(4, {9})}, Next::kWait, 9);
  expect({member(4, {}), member(4, {5})}, Next::kWait, 5);
  expect({member(6, {}), member(4, {5})}, Next::kWait, 6);
}

TEST(GroupChoice, WithoutNewsTheGroupWaits) {
  expect({member(0, {}), member(0, {})}, Next::kWait, 0);
  expect({member(4, {}), member(4, {})}, Next::kWait, 4);
}

TEST(GroupChoice, ALaterPublishersVersionIsNewerWhateverItsNumber) {
  expect({member(9, {3}, kEpoch + 1), member(9, {3}, kEpoch + 1)}, Next::kCommit, 3);
  expect({member(9, {3}, kEpoch + 1), member(9, {10})}, Next::kWait, 3);
  expect({member(4, {5}, kEpoch + 1), member(4, {5})}, Next::kWait, 5);  // other bytes, maybe
}

TEST(GroupChoice, TheShortestTimeCountsUnlessAllCanShowAVersion) {
  GroupMember late = member(4, {});
  late.is_out_of_time = true;
  expect({member(4, {5}), late}, Next::kGiveUp, 5);
  late.can.ready = {{kEpoch, 5}};
  expect({member(4, {5}), late}, Next::kCommit, 5);
}

TEST(GroupChoice, ALongChainTellsItsLastVersions) {
  expect({member(1, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), member(1, {10, 11})}, Next::kCommit, 11);
}

TEST(GroupChoice, BytesThatAreNoMembersAreRefused) {
  EXPECT_EQ(parse_group({}).status().code(), Code::kCorrupt);
  auto bytes = serialise(member(4, {5}));
  EXPECT_EQ(parse_group(std::span(bytes).first(bytes.size() - 1)).status().code(), Code::kCorrupt);
  bytes[8] = std::byte{GroupMember::kMaxTold + 1};
  EXPECT_EQ(parse_group(bytes).status().code(), Code::kCorrupt);
  bytes = serialise(member(4, {5}));
  bytes[0] = std::byte{2};
  EXPECT_EQ(parse_group(bytes).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace sparcl::replication
