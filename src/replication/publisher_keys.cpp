// Keys, secrets and term of a publisher, also those that replace others while it runs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/replication/publisher.hpp"

namespace sparcl::replication {
namespace {

constexpr double kKeysPeriod = 1;  // seconds between two looks at the files; heuristic

std::string fingerprints(const trust::SigningKeys& keys) {
  std::vector<std::string> names;
  for (const trust::SigningKey& each : keys.all())
    names.push_back(trust::fingerprint(each.public_key()));
  return fmt::format("{} {}", names.size() == 1 ? "key" : "keys", fmt::join(names, ", "));
}

}  // namespace

Status Publisher::load_keys() {
  key_file_ = FileStamp(options_.key_path);
  if (!options_.key_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(trust::SigningKeysRef keys,
                            trust::SigningKeys::load(options_.key_path));
    issuer_.keys = std::move(keys);
  }
  if (options_.security) {
    security_ = *options_.security;
  } else {
    SPARCL_ASSIGN_OR_RETURN(security_,
                            load_server_security(options_.secret_path, options_.certificates_path));
  }
  context_.tls = security_.tls;
  context_.sign = [this](std::span<const std::byte> text) { return issuer_.sign(text); };
  if (security_.secrets == nullptr) return {};
  if (options_.key_path.empty()) issuer_.keys = security_.secrets->keys();
  context_.prove = [this](PeerTag peer, std::span<const std::byte> exporter) {
    return security_.secrets->prove(peer, exporter);
  };
  return {};
}

// Reads files that were changed, without the mutex. A file that cannot be used changes nothing.
void Publisher::look_for_new_keys() {
  const double now = net::monotonic_seconds();
  if (now - keys_looked_at_ < kKeysPeriod) return;
  keys_looked_at_ = now;
  Result<trust::SigningKeysRef> keys = trust::SigningKeysRef();
  Result<std::shared_ptr<SecretRing>> secrets = std::shared_ptr<SecretRing>();
  if (key_file_.has_changed()) keys = trust::SigningKeys::load(key_file_.path());
  if (security_.file.has_changed()) secrets = SecretRing::load(security_.file.path());
  // A file that cannot be used is looked at again.
  keys.ok() ? key_file_.keep() : warn_of_changed_file(failed_turns_, keys.status(), now);
  secrets.ok() ? security_.file.keep() : warn_of_changed_file(failed_turns_, secrets.status(), now);
  const std::lock_guard lock(mutex_);
  if (secrets.ok() && *secrets != nullptr) take_secrets(std::move(**secrets));
  if (keys.ok() && *keys != nullptr) sign_by(*keys);
}

// Reads and writes the file beside this thread, which serves replicas also if the file system
// hangs. If another publisher has taken over, no replica is served here any more.
void Publisher::look_at_witness() {
  const double now = net::monotonic_seconds();
  if (witness_ == nullptr) return;
  if (!witness_->is_looking() && now - witness_looked_at_ < kKeysPeriod) return;
  witness_looked_at_ = now;
  // learn_epoch() alone changes it, in this thread.
  const std::optional<Status> looked = witness_->look(epoch_.wanted_term(), now);
  if (!looked) return;
  const Status& status = *looked;
  if (!status.ok() && status.code() != Code::kInvalidUsage) {
    const std::uint64_t times = failed_turns_.count(status.message(), now);
    if (times > 0) log_error("replication: {}{}", status.message(), times_text(times));
    return;
  }
  const std::lock_guard lock(mutex_);
  if (status.ok() && witness_->term() > epoch_.value()) take_term(witness_->term());
  if (status.ok() || !context_.closed.empty()) return;
  log_error("replication: {}", status.message());
  context_.closed = status.message();
  server_->end_replicas();
}

void Publisher::take_term(std::uint64_t term) {
  log_warn(
      "replication: a replica has a version of a later term than {}: this publisher has term {} "
      "now, and all replicas connect again",
      epoch_.value(), term);
  epoch_.take_term(term);
  issuer_.epoch = context_.epoch = term;
  reissue();
}

// Connections of peers whose secret is gone end. They may also take updates from other replicas, by
// tickets that end when all replicas connect anew.
void Publisher::take_secrets(SecretRing secrets) {
  const bool is_one_gone = security_.secrets->replace(std::move(secrets));
  const std::size_t ended = server_->end_revoked([this](int secret) {
    return security_.secrets->knows({secret, trust::Role::kObserve});
  });
  log_info("replication: {}: the file has {} {} now; {} connections of others were ended",
           security_.file.path(), security_.secrets->keys()->all().size(),
           security_.secrets->keys()->all().size() == 1 ? "secret" : "secrets", ended);
  if (options_.key_path.empty()) sign_by(security_.secrets->keys());
  if (is_one_gone) server_->end_replicas();
}

// The kept updates are signed anew. Replicas come again, and get nothing that was signed before.
void Publisher::sign_by(const trust::SigningKeysRef& keys) {
  const trust::SigningKeysRef before = issuer_.keys.exchange(keys);
  const auto is_same = [](const trust::SigningKey& a, const trust::SigningKey& b) {
    return a.public_key() == b.public_key();
  };
  if (before != nullptr && std::ranges::equal(before->all(), keys->all(), is_same)) return;
  log_info("replication: versions are signed by the {} from now on", fingerprints(*keys));
  reissue();
}

}  // namespace sparcl::replication
