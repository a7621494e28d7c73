// How a replica begins: its settings, its trusted keys, and the record of its life before.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/settings.hpp"
#include "src/replication/model_id.hpp"
#include "src/replication/replica_record.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kKeptPart =
    4;  // of the model's bytes: updates kept for replicas that take them from here; heuristic
constexpr std::uint64_t kReplacedPart = 4;  // and what they have replaced; heuristic

// The most bytes that an update of this state can have: all tensors, and the frames around them.
// More is a lie.
std::uint64_t max_stream_bytes(const codec::BlockMap& map) {
  return map.byte_count() + map.byte_count() / 8 + map.block_count() * 256 +
         (std::uint64_t{1} << 20);
}

// The keys that the replica trusts, and what it has held in its life before.
Result<std::optional<trust::TrustedKeys>> take_trust(SubscriberOptions& options,
                                                     const ReplicaCredentials& credentials) {
  if (!options.record_path.empty() && options.trust_path.empty() && options.secret_path.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a record ({}) without trusted keys proves nothing: set trust_path "
                              "or secret_path, or no record_path",
                              options.record_path));
  }
  std::optional<trust::TrustedKeys> trusted = credentials.trusted();
  if (trusted) SPARCL_RETURN_IF_ERROR(trusted->check_threshold());
  if (trusted && !options.record_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(std::optional<Offer> recorded,
                            load_replica_record(options.record_path, *trusted, options.model_id));
    options.latest = std::move(recorded);
  }
  return trusted;
}

ReplicaMachine::Options complete(ReplicaMachine::Options machine, const ReplicatedState& state,
                                 const SubscriberOptions& options, std::uint64_t max_replaced_bytes,
                                 std::string name) {
  machine.model_id = options.model_id;
  machine.schema_hash = state.schema_hash;
  machine.schema_digest = state.schema_digest;
  machine.max_stream_bytes = max_stream_bytes(*state.map);
  machine.max_replaced_bytes = max_replaced_bytes;
  machine.holds_copy = options.holds_copy;
  machine.silence_ms = to_ms(options.silence_s);
  machine.name = std::move(name);
  if (machine.trusted) machine.latest = options.latest;
  machine.max_age_s = options.max_age_s;
  machine.gives_bytes = machine.takes_bytes = options.gives_bytes;
  machine.side_files = options.side_files;
  machine.only_told = options.only_told;
  return machine;
}

}  // namespace

Status SubscriberOptions::take_settings() {
  SPARCL_ASSIGN_OR_RETURN(const double silence, setting_number("LIVENESS_S"));
  SPARCL_ASSIGN_OR_RETURN(const std::string relay, setting_choice("RELAY"));
  SPARCL_ASSIGN_OR_RETURN(const std::string& memory, setting_choice("SHARED_MEMORY"));
  silence_s = silence;
  shares_memory = memory == "on";
  SPARCL_ASSIGN_OR_RETURN(const double sweep, setting_number("SWEEP_S"));
  SPARCL_ASSIGN_OR_RETURN(const double peers, setting_number("PEER_BYTES"));
  sweep_s = sweep;
  peer_bytes = static_cast<std::uint64_t>(peers);
  SPARCL_RETURN_IF_ERROR(take_credentials(secret_path, certificates_path));
  passes_on = relay != "off";
  gives_bytes = relay != "updates";
  return {};
}

Result<std::unique_ptr<Subscriber>> Subscriber::create(const ReplicatedState& state,
                                                       const std::string& address,
                                                       const SubscriberOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(const net::HostPort where, net::parse_host_port(address));
  SPARCL_RETURN_IF_ERROR(check_model_id(options.model_id));
  if (!options.trust_path.empty() && options.model_id.empty()) {
    return Status(
        Code::kInvalidArgument,
        fmt::format(
            "trusted keys ({}) without a model id: a key may sign several models, and whoever "
            "answers could give another one of them: name the model, as its publisher does",
            options.trust_path));
  }
  SubscriberOptions kept = options;
  if (kept.only_told) kept.passes_on = kept.gives_bytes = kept.shares_memory = false;
  ReplicaCredentials credentials;
  if (options.credentials) {
    credentials = *options.credentials;
  } else {
    SPARCL_ASSIGN_OR_RETURN(
        credentials, ReplicaCredentials::load({options.secret_path, options.certificates_path,
                                               options.trust_path, options.trust_threshold}));
  }
  kept.credentials.reset();
  SPARCL_ASSIGN_OR_RETURN(std::optional<trust::TrustedKeys> trusted, take_trust(kept, credentials));
  ReplicaMachine::Options machine;
  machine.trusted = std::move(trusted);
  // With other trusted keys the publisher's connection proves nothing of the bytes.
  machine.is_publisher_proven = credentials.security().publisher_key && options.trust_path.empty();
  std::unique_ptr<Subscriber> made(
      new Subscriber(state, kept, std::move(machine), std::move(credentials)));
  if (options.double_buffer) {
    SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<BufferPair> buffers,
                            BufferPair::create(*state.map, state.arrays));
    made->buffers_ = std::move(buffers);
    made->state_.arrays = made->buffers_->front();
  }
  made->where_ = where;
  made->address_ = address;
  SPARCL_ASSIGN_OR_RETURN(net::WakeEvent wake, net::WakeEvent::create());
  made->wake_ = std::move(wake);
  Subscriber* own = made.get();
  SPARCL_RETURN_IF_ERROR(made->thread_.start(
      "a subscriber", [own](const net::ServiceThread::Stop& stop) { own->serve(stop); }));
  return made;
}

Subscriber::Subscriber(const ReplicatedState& state, const SubscriberOptions& options,
                       ReplicaMachine::Options machine, ReplicaCredentials credentials)
    : state_(state),
      options_(options),
      credentials_(std::move(credentials)),
      clock_(net::clock_slack_s(options.silence_s)),
      rollback_(options.keeps_rollback
                    ? std::max<std::uint64_t>(state.map->byte_count() / kReplacedPart, 1)
                    : 0),
      sweep_(options.sweep_s, options.double_buffer),
      publisher_(*this, UpstreamKind::kPublisher, options.silence_s),
      parent_(*this, UpstreamKind::kParent, options.silence_s),
      machine_(complete(std::move(machine), state, options, rollback_.max_bytes(), name_.text()),
               publisher_, parent_, state.hash()),
      relay_(state, {options.model_id, options.silence_s, options.shares_memory,
                     state.map->byte_count() / kKeptPart, options.peer_bytes,
                     credentials_.security().tls != nullptr, options.gives_bytes}) {}

}  // namespace sparcl::replication
