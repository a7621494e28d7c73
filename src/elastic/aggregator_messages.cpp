#include "src/elastic/aggregator_messages.hpp"

#include <cmath>
#include <utility>

#include "src/replication/message_fields.hpp"

namespace sparcl::elastic {

using model::read_array;
using model::read_double;
using model::read_flag;
using model::read_float;
using model::read_text;
using model::write_double;
using model::write_flag;
using model::write_float;
using model::write_text;
using replication::parse_message;

namespace {

void write_id(ByteWriter& out, const aggregate::ContributionId& id) {
  out.write(id.worker);
  out.write(id.round);
}

bool read_id(ByteReader& in, aggregate::ContributionId& id) {
  return in.read(id.worker) && in.read(id.round);
}

// A list of at most kMaxCollectItems.
template <class Item, class Read>
bool read_list(ByteReader& in, std::vector<Item>& items, Read&& read) {
  std::uint32_t count = 0;
  if (!in.read(count) || count > kMaxCollectItems) return false;
  items.resize(count);
  for (Item& each : items) {
    if (!read(each)) return false;
  }
  return true;
}

bool is_subtree(const aggregate::Subtree& subtree) {
  return subtree.log2_slots <= aggregate::kLog2MaxSlots && subtree.first % subtree.slots() == 0 &&
         aggregate::kAllSlots.holds(subtree);
}

}  // namespace

std::vector<std::byte> serialise(const MemberTold& member) {
  ByteWriter out;
  out.write(member.worker);
  out.write(static_cast<std::uint8_t>(member.state));
  out.write(member.seat.number);
  out.write(member.seat.group);
  write_text(out, member.name);
  out.write_bytes(serialise(member.join));
  return out.take();
}

Result<MemberTold> parse_member(std::span<const std::byte> bytes) {
  return parse_message<MemberTold>(bytes, "MEMBER", [](ByteReader& in, MemberTold& member) {
    std::uint8_t state = 0;
    if (!in.read(member.worker) || !in.read(state) ||
        state > static_cast<std::uint8_t>(MemberTold::State::kGone) ||
        !in.read(member.seat.number) || member.seat.number > aggregate::kMaxNumber)
      return false;
    member.state = static_cast<MemberTold::State>(state);
    return in.read(member.seat.group) && read_text(in, member.name) && in.read(member.join.count) &&
           replication::read_signatures(in, member.join.signatures);
  });
}

std::vector<std::byte> serialise(const TurnedAway& away) {
  ByteWriter out;
  out.write(away.worker);
  out.write(static_cast<std::uint32_t>(away.code));
  write_text(out, away.text);
  return out.take();
}

Result<TurnedAway> parse_turned_away(std::span<const std::byte> bytes) {
  return parse_message<TurnedAway>(bytes, "TURNED_AWAY", [](ByteReader& in, TurnedAway& away) {
    return in.read(away.worker) && replication::read_code(in, away.code) &&
           read_text(in, away.text);
  });
}

std::vector<std::byte> serialise(const GivenTold& given) {
  ByteWriter out;
  out.write(given.worker);
  write_double(out, given.facts.squares);
  out.write(given.facts.not_finite);
  out.write(given.entries);
  out.write_bytes(serialise(given.offered));
  return out.take();
}

Result<GivenTold> parse_given(std::span<const std::byte> bytes) {
  return parse_message<GivenTold>(bytes, "GIVEN", [](ByteReader& in, GivenTold& given) {
    std::span<const std::byte> rest;
    if (!in.read(given.worker) || !read_double(in, given.facts.squares) ||
        !in.read(given.facts.not_finite) || !in.read(given.entries) ||
        !in.read_bytes(in.remaining(), rest))
      return false;
    Result<Offered> offered = parse_offered(rest);
    if (!offered.ok()) return false;
    given.offered = std::move(*offered);
    return given.facts.not_finite <= given.entries && std::isfinite(given.facts.squares) &&
           given.facts.squares >= 0;
  });
}

std::vector<std::byte> serialise(const Verdict& verdict) {
  ByteWriter out;
  out.write(verdict.worker);
  write_flag(out, verdict.is_new);
  out.write(verdict.slot);
  write_float(out, verdict.weight);
  write_float(out, verdict.clip);
  out.write_bytes(serialise(verdict.fate));
  return out.take();
}

Result<Verdict> parse_verdict(std::span<const std::byte> bytes) {
  return parse_message<Verdict>(bytes, "VERDICT", [](ByteReader& in, Verdict& verdict) {
    std::span<const std::byte> rest;
    if (!in.read(verdict.worker) || !read_flag(in, verdict.is_new) || !in.read(verdict.slot) ||
        verdict.slot >= aggregate::kAllSlots.end || !read_float(in, verdict.weight) ||
        !read_float(in, verdict.clip) || !in.read_bytes(in.remaining(), rest))
      return false;
    Result<FateTold> fate = parse_fate(rest);
    if (!fate.ok()) return false;
    verdict.fate = std::move(*fate);
    const bool is_listed = verdict.fate.kind == aggregate::Answer::Kind::kListed;
    return !verdict.is_new ||
           (is_listed && verdict.fate.in_round > 0 && verdict.fate.in_round >= verdict.fate.round);
  });
}

std::vector<std::byte> serialise(const Collect& collect) {
  ByteWriter out;
  out.write(collect.round);
  write_flag(out, collect.is_wanted);
  write_flag(out, collect.is_last);
  write_double(out, collect.wait_s);
  out.write(static_cast<std::uint32_t>(collect.spans.size()));
  for (const Collect::Span& each : collect.spans) {
    out.write(each.rounds_late);
    out.write(static_cast<std::uint32_t>(each.slots.first));
    out.write(static_cast<std::uint32_t>(each.slots.end));
  }
  out.write(static_cast<std::uint32_t>(collect.clips.size()));
  for (const Collect::Clip& each : collect.clips) {
    write_id(out, each.id);
    write_float(out, each.factor);
  }
  return out.take();
}

Result<Collect> parse_collect(std::span<const std::byte> bytes) {
  return parse_message<Collect>(bytes, "COLLECT", [](ByteReader& in, Collect& collect) {
    const auto read_span = [&in](Collect::Span& span) {
      std::uint32_t first = 0, end = 0;
      if (!in.read(span.rounds_late) || !in.read(first) || !in.read(end)) return false;
      span.slots = {first, end};
      return first < end && end <= aggregate::kAllSlots.end;
    };
    const auto read_clip = [&in](Collect::Clip& clip) {
      return read_id(in, clip.id) && read_float(in, clip.factor);
    };
    return in.read(collect.round) && read_flag(in, collect.is_wanted) &&
           read_flag(in, collect.is_last) && read_double(in, collect.wait_s) &&
           collect.wait_s >= 0 && collect.wait_s <= aggregate::kMaxWaitS &&
           read_list(in, collect.spans, read_span) && read_list(in, collect.clips, read_clip);
  });
}

std::vector<std::byte> serialise(const SubtreeTold& told) {
  ByteWriter out;
  out.write(told.round);
  write_flag(out, told.is_of_weights);
  out.write(told.rounds_late);
  out.write(told.subtree.first);
  out.write(told.subtree.log2_slots);
  out.write(told.bytes);
  out.write_bytes(told.digest);
  return out.take();
}

Result<SubtreeTold> parse_subtree(std::span<const std::byte> bytes) {
  return parse_message<SubtreeTold>(bytes, "SUBTREE", [](ByteReader& in, SubtreeTold& told) {
    return in.read(told.round) && read_flag(in, told.is_of_weights) && in.read(told.rounds_late) &&
           in.read(told.subtree.first) && in.read(told.subtree.log2_slots) &&
           is_subtree(told.subtree) && in.read(told.bytes) && read_array(in, told.digest);
  });
}

std::vector<std::byte> serialise(const Collected& collected) {
  ByteWriter out;
  out.write(collected.round);
  return out.take();
}

Result<Collected> parse_collected(std::span<const std::byte> bytes) {
  return parse_message<Collected>(bytes, "COLLECTED", [](ByteReader& in, Collected& collected) {
    return in.read(collected.round);
  });
}

std::vector<std::byte> serialise(const Withdrawn& withdrawn) {
  ByteWriter out;
  write_id(out, withdrawn.id);
  return out.take();
}

Result<Withdrawn> parse_withdrawn(std::span<const std::byte> bytes) {
  return parse_message<Withdrawn>(bytes, "WITHDRAWN", [](ByteReader& in, Withdrawn& withdrawn) {
    return read_id(in, withdrawn.id);
  });
}

}  // namespace sparcl::elastic
