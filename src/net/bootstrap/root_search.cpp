#include "src/net/bootstrap/root_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "src/net/bootstrap/bootstrap_messages.hpp"

namespace sparcl::net {
namespace {

constexpr double kRetrySeconds = 0.2;

// One address: idle until its next try, then connecting, then waiting for the challenge.
class Candidate {
 public:
  Candidate(const UniqueId& id, const NetAddress& address, double first_try)
      : id_(&id), address_(address), next_try_(first_try), failure_() {}

  const NetAddress& address() const { return address_; }
  bool is_idle() const { return phase_ == Phase::kIdle; }
  bool is_tried() const { return !is_idle() || !failure_.empty(); }
  bool is_hopeless() const { return is_idle() && hopeless_; }
  double next_try() const { return next_try_; }
  pollfd entry() const {
    return {is_idle() ? -1 : line_.socket().fd(),
            static_cast<short>(phase_ == Phase::kConnecting ? POLLOUT : POLLIN), 0};
  }
  std::string text() const {
    return fmt::format("{} ({})", to_text(address_),
                       is_idle() ? (is_tried() ? failure_ : "not tried yet") : "no answer");
  }

  void start(double now) {
    Result<Socket> socket = start_connect(address_);
    if (!socket.ok()) return fail(socket.status().message(), now, true);
    line_ = ByteLine(std::move(*socket));
    phase_ = Phase::kConnecting;
  }

  // A session, once the other side has shown that it knows the secret.
  std::optional<BootstrapSession> step(double now) {
    if (phase_ == Phase::kConnecting) greet(now);
    if (phase_ != Phase::kGreeted) return std::nullopt;
    switch (line_.read()) {
      case ByteLine::Progress::kMore:
        return std::nullopt;
      case ByteLine::Progress::kClosed:
        fail(line_.why_closed(), now, false);
        return std::nullopt;
      case ByteLine::Progress::kDone:
        break;
    }
    Result<BootstrapSession> session = check_challenge(id_->secret, nonce_, line_.received());
    if (session.ok()) return *session;
    fail(session.status().message(), now, true);
    is_other_root_ = true;
    return std::nullopt;
  }
  bool is_other_root() const { return is_other_root_; }  // the answer is not of the id's root

  ByteLine take_line() { return std::move(line_); }

 private:
  enum class Phase { kIdle, kConnecting, kGreeted };

  void greet(double now) {
    if (const int error = connect_error(line_.socket()); error != 0)
      return fail(error_text(error), now, error != ECONNRESET && error != ETIMEDOUT);
    send_at_once(line_.socket());
    if (const Status status = trust::fill_random(nonce_); !status.ok())
      return fail(status.message(), now, true);
    line_.queue(encode_hello(nonce_));
    if (line_.write() == ByteLine::Progress::kClosed) return fail(line_.why_closed(), now, false);
    line_.expect(kChallengeBytes);
    phase_ = Phase::kGreeted;
  }

  // A connection that is made and then closed is no refusal: the root also closes unauthenticated
  // connections if too many come at once.
  void fail(std::string why, double now, bool hopeless) {
    failure_ = std::move(why);
    hopeless_ = hopeless;
    line_ = ByteLine();
    phase_ = Phase::kIdle;
    next_try_ = now + kRetrySeconds;
  }

  const UniqueId* id_;
  NetAddress address_;
  double next_try_;
  std::string failure_;
  bool hopeless_ = false;
  bool is_other_root_ = false;
  Phase phase_ = Phase::kIdle;
  ByteLine line_;
  Nonce nonce_{};
};

Status nobody(std::span<const Candidate> candidates) {
  std::string text;
  for (const Candidate& candidate : candidates)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", candidate.text());
  const bool met_other_root = std::any_of(candidates.begin(), candidates.end(),
                                          [](const Candidate& c) { return c.is_other_root(); });
  return Status(
      Code::kRemoteError,
      "the process that made the unique id cannot be reached at " + text +
          (met_other_root ? ". The id is of another run, or was changed on its way to this "
                            "rank, or its process has ended, or this host"
                          : ". It has ended, or the id was used long ago, or this host") +
          " has no route there. SPARCL_INTERFACE on its host chooses the addresses");
}

}  // namespace

Result<FoundRoot> find_root(const UniqueId& id, int nranks, double deadline,
                            const SearchOptions& options) {
  const double begin = monotonic_seconds();
  std::vector<Candidate> candidates;
  for (const NetAddress& address : id.addresses) {
    candidates.emplace_back(id, address,
                            begin + options.stagger_s * static_cast<double>(candidates.size()));
  }
  const double give_up = std::min(deadline, begin + options.search_s);
  while (true) {
    const double now = monotonic_seconds();
    const bool all_refused = std::all_of(candidates.begin(), candidates.end(),
                                         [](const Candidate& c) { return c.is_hopeless(); });
    const bool is_tried = std::any_of(candidates.begin(), candidates.end(),
                                      [](const Candidate& c) { return c.is_tried(); });
    if (now >= give_up && !is_tried) {
      return Status(
          Code::kTimeout,
          "the timeout was over before the process that made the unique id could be asked");
    }
    if (now >= give_up || (all_refused && now >= begin + options.refused_s))
      return nobody(candidates);
    double next = give_up;
    for (Candidate& candidate : candidates) {
      if (candidate.is_idle() && now >= candidate.next_try()) candidate.start(now);
      if (candidate.is_idle()) next = std::min(next, candidate.next_try());
    }
    std::vector<pollfd> entries;
    for (const Candidate& candidate : candidates) entries.push_back(candidate.entry());
    poll_until(entries, next);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (entries[i].revents == 0) continue;
      if (const std::optional<BootstrapSession> session = candidates[i].step(monotonic_seconds())) {
        return FoundRoot{
            RecordLine(candidates[i].take_line(), *session, Side::kRank, max_table_bytes(nranks)),
            candidates[i].address()};
      }
    }
  }
}

}  // namespace sparcl::net
