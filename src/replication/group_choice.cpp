#include "src/replication/group_choice.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl::replication {
namespace {

constexpr std::size_t kWords = GroupMember::kBytes / sizeof(std::uint64_t);
constexpr std::uint64_t kOutOfTime = 1;
using Words = std::array<std::uint64_t, kWords>;

void put(Words& words, std::size_t i, const PreparedVersion& version) {
  words[2 + 2 * i] = version.epoch;
  words[3 + 2 * i] = version.version;
}

PreparedVersion version_in(const Words& words, std::size_t i) {
  return {words[2 + 2 * i], words[3 + 2 * i]};
}

}  // namespace

std::array<std::byte, GroupMember::kBytes> serialise(const GroupMember& member) {
  const std::vector<PreparedVersion>& ready = member.can.ready;
  const std::size_t count = std::min(ready.size(), GroupMember::kMaxTold);
  Words words{};
  words[0] = member.is_out_of_time ? kOutOfTime : 0;
  words[1] = count;
  put(words, 0, member.can.shown);
  for (std::size_t i = 0; i < count; ++i) put(words, i + 1, ready[ready.size() - count + i]);
  std::array<std::byte, GroupMember::kBytes> bytes;
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

Result<std::vector<GroupMember>> parse_group(std::span<const std::byte> all) {
  std::vector<GroupMember> members(all.size() / GroupMember::kBytes);
  bool is_sound = !members.empty() && all.size() % GroupMember::kBytes == 0;
  for (std::size_t i = 0; is_sound && i < members.size(); ++i) {
    Words words;
    std::memcpy(words.data(), all.data() + i * GroupMember::kBytes, sizeof words);
    is_sound = words[0] <= kOutOfTime && words[1] <= GroupMember::kMaxTold;
    if (!is_sound) break;
    members[i].is_out_of_time = words[0] == kOutOfTime;
    members[i].can.shown = version_in(words, 0);
    for (std::size_t at = 0; at < words[1]; ++at)
      members[i].can.ready.push_back(version_in(words, at + 1));
  }
  if (is_sound) return members;
  return Status(Code::kCorrupt,
                "what ranks say of their versions cannot be read: do all use the same version of "
                "sparcl?");
}

GroupChoice choose(std::span<const GroupMember> members) {
  GroupChoice choice;
  std::vector<PreparedVersion> candidates = members.front().can.ready;
  candidates.push_back(members.front().can.shown);
  for (const PreparedVersion& each : candidates) {
    const auto can_show = [&](const GroupMember& member) { return member.can.can_show(each); };
    const auto shows = [&](const GroupMember& member) { return member.can.shown == each; };
    const bool is_news =
        std::ranges::all_of(members, can_show) && !std::ranges::all_of(members, shows);
    if (each.version == 0 || !is_news || each <= choice.version) continue;
    choice = {GroupChoice::Next::kCommit, each};
  }
  if (choice.next == GroupChoice::Next::kCommit) return choice;
  for (const GroupMember& each : members) {
    choice.version = std::max(choice.version, each.can.newest());
    if (each.is_out_of_time) choice.next = GroupChoice::Next::kGiveUp;
  }
  return choice;
}

}  // namespace sparcl::replication
