#include "src/transport/survivors/survivor_agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/wait_warning.hpp"

namespace sparcl::transport {
namespace {

constexpr std::size_t kHeadBytes = 12;
constexpr double kFlushSeconds = 1;  // for messages that other ranks may still need from this rank

std::size_t message_bytes(std::size_t ranks) { return kHeadBytes + (ranks + 7) / 8; }

}  // namespace

SurvivorAgreement::SurvivorAgreement(Transport& transport, Channel channel)
    : transport_(transport),
      channel_(channel),
      rank_(transport.rank()),
      peers_(static_cast<std::size_t>(transport.size())) {
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank != rank_) listen(rank);
  }
}

SurvivorAgreement::~SurvivorAgreement() {
  for (const Peer& peer : peers_) transport_.cancel(peer.receive);
}

Result<Verdict> SurvivorAgreement::agree(bool yes, double timeout_s) {
  const double deadline = transport_.now() + timeout_s;
  begin(yes);
  std::uint64_t turns = 0;
  WaitWarning warning;
  for (; !ended(); ++turns) {
    if (transport_.now() >= deadline) {
      return Status(Code::kTimeout,
                    fmt::format("{} did not take part within {:g} s: what lives and does not come "
                                "must be ended before, or meanwhile",
                                awaited(), timeout_s));
    }
    // Early enough for ranks that began before this rank, and time out before it.
    if (transport_.now() >= deadline - timeout_s / 2) tell_whom_it_awaits();
    step();
    if (const double lasted = transport_.now() - (deadline - timeout_s);
        !ended() && warning.is_due(lasted)) {
      log_warn(
          "rank {} has waited {:.3g} s in sparclCommShrink for {}: it has not called it, or is "
          "stopped; the wait ends after {:g} s",
          rank_, lasted, awaited(), timeout_s);
    }
    transport_.idle(turns, std::min(deadline, deadline - timeout_s + warning.next_s()));
  }
  const double flushed = std::min(deadline, transport_.now() + kFlushSeconds);
  for (turns = 0; !sends_.empty() && transport_.now() < flushed; ++turns) {
    step();
    transport_.idle(turns, flushed);
  }
  if (!verdict_->dead[static_cast<std::size_t>(rank_)]) return *verdict_;
  return Status(Code::kRemoteError,
                "the other ranks have given this one up: they go on without it");
}

void SurvivorAgreement::begin(bool yes) {
  ++round_;
  yes_ = yes;
  promised_ = -1;
  has_told_awaited_ = false;
  verdict_.reset();
  for (Peer& peer : peers_) {
    peer.view.reset();
    peer.decision.reset();
    peer.awaited.clear();
  }
}

void SurvivorAgreement::step() {
  std::vector<OperationRef> completed;
  if (const Status moved = transport_.progress(completed); !moved.ok()) {
    for (int rank = 0; rank < transport_.size(); ++rank) bury(rank);
  }
  std::erase_if(sends_, [](const OperationRef& each) { return each->done; });
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank != rank_) hear(rank);
  }
  if (ended()) return;
  coordinator() == rank_ ? lead() : follow();
}

void SurvivorAgreement::listen(int rank) {
  peers_[static_cast<std::size_t>(rank)].receive =
      transport_.receive(rank, channel_, Buffer::allocate(message_bytes(peers_.size())));
}

// The last messages of a dead rank still count: other ranks may have used them, too.
void SurvivorAgreement::hear(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  while (!peer.is_dead && peer.receive->done) {
    std::optional<Message> message;
    if (peer.receive->status.ok())
      message = parse(peer.receive->buffer.bytes().first(peer.receive->bytes));
    if (!message) {
      bury(rank);
      break;
    }
    peer.early.push_back(std::move(*message));
    listen(rank);
  }
  while (!ended() && !peer.early.empty() && peer.early.front().round <= round_) {
    if (peer.early.front().round == round_) take(peer, std::move(peer.early.front()));
    peer.early.pop_front();
  }
}

void SurvivorAgreement::take(Peer& peer, Message message) {
  switch (message.kind) {
    case Message::Kind::kView:
      peer.view = std::move(message.content);
      return;
    case Message::Kind::kDecision:
      peer.decision = std::move(message);
      return;
    case Message::Kind::kAwaited:
      peer.awaited = std::move(message.content.dead);
      return;
  }
}

// Another coordinator, to which this rank has promised, may have overruled a decision of a lower
// ballot. The decision counts only if that coordinator sends it.
void SurvivorAgreement::follow() {
  const int leader = coordinator();
  if (promised_ != leader) {
    promised_ = leader;
    send(leader,
         {.round = round_, .kind = Message::Kind::kView, .ballot = leader, .content = own_view()});
    SPARCL_FAILPOINT("shrink.voted");
  }
  for (int rank = 0; rank < transport_.size(); ++rank) {
    const std::optional<Message>& said = peers_[static_cast<std::size_t>(rank)].decision;
    if (said && (said->ballot >= promised_ || rank == promised_))
      return decide(Verdict(said->content), std::max(said->ballot, promised_));
  }
}

// Ranks that are taken for dead are left out, one after the other, and the votes of those left out
// do not count. The first is the rank that most ranks take for dead. On a tie it is the one that
// takes most others for dead, then the highest rank. A rank that was stopped or cut off, and is
// back, therefore does not remove the ranks that it had given up meanwhile.
void SurvivorAgreement::leave_out_the_accused(Verdict& verdict) const {
  const auto accuses = [&](std::size_t a, std::size_t b) {
    return !verdict.dead[a] && !verdict.dead[b] && peers_[a].view && peers_[a].view->dead[b];
  };
  while (true) {
    std::size_t worst = 0;
    std::pair<int, int> most{0, 0};  // that take it for dead, and that it takes for dead
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      std::pair<int, int> count{0, 0};
      for (std::size_t other = 0; other < peers_.size(); ++other) {
        count.first += accuses(other, rank) ? 1 : 0;
        count.second += accuses(rank, other) ? 1 : 0;
      }
      if (count.first > 0 && count >= most) {
        most = count;
        worst = rank;
      }
    }
    if (most.first == 0) return;
    verdict.dead[worst] = true;
  }
}

// The newest decision of any rank stands, because other ranks may have left with it.
void SurvivorAgreement::lead() {
  Verdict verdict = own_view();
  const Message* newest = nullptr;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (rank == rank_) continue;
    if (peer.decision && (newest == nullptr || peer.decision->ballot > newest->ballot))
      newest = &*peer.decision;
    if (peer.is_dead) continue;
    if (!peer.view && !peer.decision) return;
  }
  leave_out_the_accused(verdict);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!verdict.dead[i] && peers_[i].view)
      verdict.all_said_yes = verdict.all_said_yes && peers_[i].view->all_said_yes;
  }
  promised_ = rank_;
  decide(newest != nullptr ? Verdict(newest->content) : verdict, rank_);
}

void SurvivorAgreement::decide(const Verdict& verdict, std::int32_t ballot) {
  verdict_ = verdict;
  SPARCL_FAILPOINT("shrink.decided");
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank != rank_)
      send(rank, {.round = round_,
                  .kind = Message::Kind::kDecision,
                  .ballot = ballot,
                  .content = verdict});
    if (verdict.dead[static_cast<std::size_t>(rank)])
      bury(rank);  // a live rank has been told that it is out
  }
  SPARCL_FAILPOINT("shrink.told");
}

void SurvivorAgreement::send(int rank, const Message& message) {
  if (peers_[static_cast<std::size_t>(rank)].is_dead) return;
  const OperationRef sent = transport_.send(rank, channel_, serialise(message));
  if (!sent->done) sends_.push_back(sent);  // a failure is reported by the receive
}

void SurvivorAgreement::bury(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (rank == rank_ || peer.is_dead) return;
  peer.is_dead = true;
  transport_.cancel(peer.receive);
}

int SurvivorAgreement::coordinator() const {
  int rank = 0;
  while (rank != rank_ && peers_[static_cast<std::size_t>(rank)].is_dead) ++rank;
  return rank;
}

Verdict SurvivorAgreement::own_view() const {
  Verdict view{std::vector<bool>(peers_.size()), yes_};
  for (std::size_t i = 0; i < peers_.size(); ++i) view.dead[i] = peers_[i].is_dead;
  return view;
}

std::vector<bool> SurvivorAgreement::not_heard() const {
  std::vector<bool> ranks(peers_.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    ranks[i] = static_cast<int>(i) != rank_ && !peer.is_dead && !peer.view && !peer.decision;
  }
  return ranks;
}

// Sent once. A rank that waits for this rank, only because this rank waits too, can then name the
// right culprit at its timeout.
void SurvivorAgreement::tell_whom_it_awaits() {
  if (has_told_awaited_ || coordinator() != rank_) return;
  has_told_awaited_ = true;
  const std::vector<bool> awaited = not_heard();
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank == rank_ || awaited[static_cast<std::size_t>(rank)]) continue;
    send(rank, {.round = round_,
                .kind = Message::Kind::kAwaited,
                .ballot = rank_,
                .content = {awaited, yes_}});
  }
}

std::string SurvivorAgreement::awaited() const {
  const auto name = [&](int rank) {
    return fmt::format("rank {} ({})", rank, transport_.describe_peer(rank));
  };
  const int leader = coordinator();
  const std::vector<bool> awaited =
      leader == rank_ ? not_heard() : peers_[static_cast<std::size_t>(leader)].awaited;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < awaited.size(); ++i) {
    if (awaited[i] && static_cast<int>(i) != rank_) names.push_back(name(static_cast<int>(i)));
  }
  if (leader == rank_) return fmt::format("{}", fmt::join(names, ", "));
  if (names.empty()) return fmt::format("{}, or a rank that it waits for,", name(leader));
  return fmt::format("{} (as {} says)", fmt::join(names, ", "), name(leader));
}

// Little endian: round (4), ballot (4), kind, 1 for yes, zeros (2), a bit for each rank.
Buffer SurvivorAgreement::serialise(const Message& message) const {
  Buffer bytes = Buffer::allocate(message_bytes(peers_.size()));
  std::byte* at = bytes.data();
  std::fill_n(at, bytes.size(), std::byte{0});
  store_le(at, message.round);
  store_le(at + 4, static_cast<std::uint32_t>(message.ballot));
  at[8] = static_cast<std::byte>(message.kind);
  at[9] = std::byte{message.content.all_said_yes};
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (message.content.dead[i]) at[kHeadBytes + i / 8] |= std::byte{1} << (i % 8);
  }
  return bytes;
}

std::optional<SurvivorAgreement::Message> SurvivorAgreement::parse(
    std::span<const std::byte> bytes) const {
  if (bytes.size() != message_bytes(peers_.size())) return std::nullopt;
  Message message;
  message.round = load_le<std::uint32_t>(bytes.data());
  message.ballot = static_cast<std::int32_t>(load_le<std::uint32_t>(bytes.data() + 4));
  if (bytes[8] > std::byte{2}) return std::nullopt;
  message.kind = static_cast<Message::Kind>(bytes[8]);
  message.content.all_said_yes = bytes[9] != std::byte{0};
  message.content.dead.resize(peers_.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    message.content.dead[i] = (bytes[kHeadBytes + i / 8] >> (i % 8) & std::byte{1}) != std::byte{0};
  }
  return message;
}

}  // namespace sparcl::transport
