#include "src/replication/relay.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/process_name.hpp"
#include "src/replication/report_text.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kKeptUpdates = 16;  // heuristic
constexpr double kAlivePeriod =
    0.1;  // seconds: those that take from here leave what is silent for long (Subscriber)
constexpr int kRelayBacklog = 32;
constexpr std::size_t kMaxChildren = 256;  // descriptors are the host program's, too

}  // namespace

Relay::Relay(const ReplicatedState& state, const Options& options)
    : is_secure_(options.is_secure),
      store_({kKeptUpdates, options.keep_bytes}, context_.budget),
      giver_(options.model_id, context_.budget) {
  context_.budget->set_limit(PeerBudget::limit_for(options.peer_bytes, state.map->byte_count()));
  context_.model_id = options.model_id;
  feed_->schema_hash = state.schema_hash;
  feed_->store = &store_;
  feed_->block_count = state.map->block_count();
  if (options.gives_bytes) feed_->give = [this] { return giver_.give(); };
  context_.name = process_name();
  context_.silence_s = context_.handshake_s = options.silence_s;
  context_.alive_s = kAlivePeriod;
  context_.max_replicas = std::min(kMaxChildren, Server::max_replicas());
  context_.replica_limit_reason = "it passes updates on to";
  context_.shares_memory = options.shares_memory;
  context_.find_feed = [this](const Hash128& wanted) {
    return wanted == feed_->schema_hash ? feed_ : nullptr;
  };
  context_.status_report = [this] { return report(); };
}

void Relay::open(const net::NetAddress& interface) {
  if (server_ != nullptr && interface.ip == address_.ip) return;
  close();
  if (is_secure_ && context_.tls == nullptr) {
    Result<net::TlsEndpointRef> tls = ticket_server(key_);
    if (!tls.ok())
      return log_warn("replication: no updates can be passed on: {}", tls.status().message());
    context_.tls = std::move(*tls);
  }
  net::NetAddress any_port = interface;
  any_port.port = 0;
  Result<net::Socket> socket = listen_at(any_port, kRelayBacklog);
  const Result<net::NetAddress> address =
      socket.ok() ? local_address(*socket) : Result<net::NetAddress>(socket.status());
  if (!address.ok())
    return log_warn("replication: no updates can be passed on: {}", address.status().message());
  address_ = *address;
  server_ = std::make_unique<Server>(std::move(*socket), context_);
}

void Relay::close() {
  if (server_ != nullptr) server_->leave();
  server_ = nullptr;
  key_->reset();  // tickets of the session that ends open nothing
  context_.slots = std::make_shared<ReplicaSlots>();  // its sessions' places
  address_.port = 0;
  giver_.start_over();
}

void Relay::pass_on(UpdateRef update) { store_.pass_on(std::move(update)); }

void Relay::publish(double now) {
  if (server_ != nullptr) server_->publish(now);
}

void Relay::withdraw(const UpdateRef& update) {
  store_.take_back(update);
  if (server_ != nullptr) server_->withdraw(update);
}

void Relay::start_over() {
  store_.clear();
  giver_.start_over();
  if (server_ != nullptr) server_->end_sessions();
}

void Relay::forget() {
  if (children() == 0) store_.keep_incoming_only();
}

bool Relay::give(const ReplicatedState& state, const HeldVersion& held, double now) {
  const HeldGiver::Outcome outcome = giver_.work(state, held, context_.epoch, now);
  if (outcome == HeldGiver::Outcome::kMade) publish(now);
  if (outcome == HeldGiver::Outcome::kGivenUp || outcome == HeldGiver::Outcome::kDamaged)
    turn_away(now);
  return outcome != HeldGiver::Outcome::kDamaged;
}

// Replicas that wait for all bytes: they hear that there are none here.
void Relay::turn_away(double now) {
  const auto give = std::exchange(feed_->give, nullptr);
  publish(now);
  feed_->give = give;
}

void Relay::add_entries(std::vector<pollfd>& entries, double now) const {
  if (server_ != nullptr) server_->add_entries(entries, now);
}

void Relay::step(std::span<const pollfd> entries, double now) {
  if (server_ == nullptr || entries.empty()) return;
  server_->step(entries, now);
  server_->keep_within_budget(now);
  giver_.let_go();
  if (giver_.is_wanted() && children() == 0) giver_.drop();
}

int Relay::children() const {
  if (server_ == nullptr) return 0;
  const auto is_child = [](const auto& each) {
    return !each->machine().is_unauthenticated() && !each->is_over();
  };
  return static_cast<int>(
      std::count_if(server_->sessions().begin(), server_->sessions().end(), is_child));
}

std::string Relay::report() const {
  ReportFields report;
  report["replica"] = context_.name;
  report["model_id"] = context_.model_id;
  report["version"] = store_.newest() ? store_.newest()->version : 0;
  report["kept_updates"] = store_.updates();
  report["kept_bytes"] = store_.bytes();
  report["peer_bytes"] = context_.budget->used();
  report["peer_bytes_limit"] = context_.budget->limit();
  report["replicas_connected"] = children();
  ReportText text(report, "passes_on_to");
  std::uint64_t left_out = 0;
  for (const auto& session : server_->sessions()) {
    if (session->machine().is_unauthenticated() || session->is_over()) continue;
    if (!text.add({{"name", shown_name(session->machine().replica())},
                   {"bytes_sent", session->bytes_sent()},
                   {"state", session->machine().state()}}))
      ++left_out;
  }
  return text.text(left_out);
}

}  // namespace sparcl::replication
