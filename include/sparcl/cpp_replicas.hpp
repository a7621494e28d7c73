#pragma once
// Publishers and subscribers.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "sparcl/cpp_basics.hpp"
#include "sparcl/cpp_communicator.hpp"
#include "sparcl/cpp_objects.hpp"
#include "sparcl/cpp_store.hpp"
#include "sparcl/replication.h"

namespace sparcl {

// Publishes versions of a state to replicas, from a thread of its own. It keeps the state; the
// tensors must outlive it.
class Publisher {
 public:
  struct Options {
    std::string listen = {};  // "HOST:PORT"; empty: a free port of the loopback interface
    std::string model_id = {};
    std::string key_path = {};  // empty: the secret's key signs; without a secret, none
    std::uint64_t queue = 0;    // versions kept for late replicas; 0: 64
    std::string state_path =
        {};  // keeps the publisher's epoch for its next life; empty: nothing is kept
    std::uint64_t peer_bytes = 0;  // memory that peers may cause; 0: SPARCL_PEER_BYTES
    std::string secret_path = {};  // of role publish; empty: SPARCL_SECRET, else none
    bool insecure = false;         // without a secret, listen on any interface
    sparclToggle_t shared_memory = sparclDefault;  // to replicas of this machine
    std::string witness_path = {};       // terms of all publishers of the model; empty: none
    std::string certificates_path = {};  // folder, role publish; empty: SPARCL_CERTIFICATES
    const Store* store = nullptr;        // versions are also written there; it may end before
  };
  explicit Publisher(const State& state) : Publisher(state, Options()) {}
  Publisher(const State& state, const Options& options) {
    sparclPublisherOptions_t given = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    given.listen = options.listen.empty() ? nullptr : options.listen.c_str();
    given.model_id = options.model_id.c_str();
    given.key_path = options.key_path.empty() ? nullptr : options.key_path.c_str();
    given.queue = options.queue;
    given.state_path = options.state_path.empty() ? nullptr : options.state_path.c_str();
    given.peer_bytes = options.peer_bytes;
    given.secret_path = options.secret_path.empty() ? nullptr : options.secret_path.c_str();
    given.insecure = options.insecure ? sparclOn : sparclDefault;
    given.shared_memory = options.shared_memory;
    given.witness_path = options.witness_path.empty() ? nullptr : options.witness_path.c_str();
    given.certificates_path =
        options.certificates_path.empty() ? nullptr : options.certificates_path.c_str();
    given.store = options.store == nullptr ? nullptr : options.store->get();
    sparclPublisher_t handle = nullptr;
    check(sparclPublisherCreate(&handle, state.get(), &given));
    handle_ = Handle(handle, {{state.shared()}});
  }

  std::string address() const {
    char address[128];
    check(sparclPublisherAddress(get(), address, sizeof address));
    return address;
  }
  void publish(std::uint64_t version) { check(sparclPublish(get(), version)); }
  // False if fewer replicas than asked for hold it in time; reason() then says more.
  bool wait(std::uint64_t version, int replicas, double seconds) {
    const sparclResult_t result = sparclPublisherWait(get(), version, replicas, seconds);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result != sparclTimeout) check(result);
    return result == sparclSuccess;
  }
  // Why the last wait() gave false; else empty.
  const std::string& reason() const { return reason_; }
  // Waits until the version, or a later one, is in the options' store.
  void wait_stored(std::uint64_t version, double seconds) {
    check(sparclPublisherWaitStored(get(), version, seconds));
  }
  int replicas_holding(std::uint64_t version) const {
    int holding = 0;
    check(sparclPublisherCount(get(), version, nullptr, &holding));
    return holding;
  }
  // The figures of the last publish().
  Report last_report() const {
    Report report = SPARCL_REPORT_INITIALIZER;
    check(sparclPublisherLastReport(get(), &report));
    return report;
  }
  sparclPublisher_t get() const { return handle_.get(); }

 private:
  using Handle =
      std::unique_ptr<sparclPublisher,
                      detail::DestroyBefore<sparclPublisherDestroy, std::shared_ptr<sparclState>>>;
  std::string reason_;
  Handle handle_;
};

// A replica: the state's tensors hold exactly one published version, and are written in next(),
// commit() and next_group() alone. It keeps the state; the tensors must outlive it.
class Subscriber {
 public:
  struct Options {
    std::string model_id = {};
    std::string trust_path = {};  // empty: the key of the secret; without a secret, no signatures
    std::function<void(std::uint64_t version)> on_swap = {};  // where it is shown; must not throw
    bool double_buffer = false;    // tensor() stays as it is while next() works
    std::string record_path = {};  // with trusted keys: the next life refuses older versions
    sparclToggle_t relay = sparclDefault;  // pass updates on to other replicas
    std::string secret_path = {};          // of role replicate; empty: SPARCL_SECRET, else none
    std::uint64_t trust_threshold = 1;     // keys of trust_path that must have signed a version
    double max_age_s = 0;                  // next() throws sparclStale after that; 0: any age
    std::string certificates_path = {};    // folder, role replicate; empty: SPARCL_CERTIFICATES
    const Store* store = nullptr;         // versions while the publisher is away; it may end before
    bool from_store = false;              // always from there: the publisher only tells of versions
    std::uint32_t store_patience_ms = 0;  // then the publisher sends them; 0: 5,000
  };
  Subscriber(const State& state, const std::string& address)
      : Subscriber(state, address, Options()) {}
  Subscriber(const State& state, const std::string& address, Options options) {
    const auto on_swap = std::make_shared<OnSwap>(std::move(options.on_swap));
    sparclSubscriberOptions_t given = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
    given.model_id = options.model_id.c_str();
    given.trust_path = options.trust_path.empty() ? nullptr : options.trust_path.c_str();
    given.double_buffer = options.double_buffer ? sparclOn : sparclDefault;
    given.relay = options.relay;
    given.secret_path = options.secret_path.empty() ? nullptr : options.secret_path.c_str();
    given.trust_threshold = options.trust_threshold;
    given.max_age_s = options.max_age_s;
    given.certificates_path =
        options.certificates_path.empty() ? nullptr : options.certificates_path.c_str();
    given.store = options.store == nullptr ? nullptr : options.store->get();
    given.from_store = options.from_store ? sparclOn : sparclDefault;
    given.store_patience_ms = options.store_patience_ms;
    given.record_path = options.record_path.empty() ? nullptr : options.record_path.c_str();
    if (*on_swap) {
      given.on_swap = [](std::uint64_t version, void* arg) {
        (*static_cast<OnSwap*>(arg))(version);
      };
      given.arg = on_swap.get();
    }
    sparclSubscriber_t handle = nullptr;
    check(sparclSubscriberCreate(&handle, state.get(), address.c_str(), &given));
    handle_ = Handle(handle, {{state.shared(), on_swap}});
  }

  // The newest version, which the tensors now hold; nothing if none has come in time, and reason()
  // then says why.
  std::optional<std::uint64_t> next(double seconds) {
    std::uint64_t version = 0;
    const sparclResult_t result = sparclSubscriberNext(get(), seconds, &version);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result == sparclTimeout) return {};
    check(result);
    return version;
  }
  // The newest version that commit() can show; nothing, as of next().
  std::optional<std::uint64_t> prepare(double seconds) {
    std::uint64_t version = 0;
    const sparclResult_t result = sparclSubscriberPrepare(get(), seconds, &version);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result == sparclTimeout) return {};
    check(result);
    return version;
  }
  void commit(std::uint64_t version) { check(sparclSubscriberCommit(get(), version)); }
  // Collective over comm: the version that all its ranks show now; nothing, as of next().
  std::optional<std::uint64_t> next_group(double seconds, const Comm& comm) {
    std::uint64_t version = 0;
    const sparclResult_t result = sparclSubscriberNextGroup(get(), seconds, &version, comm.get());
    reason_ = result == sparclTimeout ? sparclGetLastError(comm.get()) : "";
    sparclResult_t health = sparclSuccess;  // a silent rank is a timeout, too, and ends comm
    if (result == sparclTimeout) check(sparclCommGetAsyncError(comm.get(), &health), comm.get());
    if (result == sparclTimeout && health == sparclSuccess) return {};
    check(result, comm.get());
    return version;
  }
  // Why the last of these calls gave nothing: what the subscriber waits for. Else empty.
  const std::string& reason() const { return reason_; }
  // Where tensor i of the version that is held lies; sparclSubscriberTensor says for how long.
  const void* tensor(std::size_t i) const {
    const void* data = nullptr;
    check(sparclSubscriberTensor(get(), i, &data));
    return data;
  }
  std::uint64_t held() const {
    std::uint64_t held = 0;
    check(sparclSubscriberVersion(get(), &held, nullptr));
    return held;
  }
  std::uint64_t newest() const {
    std::uint64_t newest = 0;
    check(sparclSubscriberVersion(get(), nullptr, &newest));
    return newest;
  }
  void pin(std::uint64_t version) { check(sparclSubscriberPin(get(), version)); }
  sparclSubscriber_t get() const { return handle_.get(); }

 private:
  using OnSwap = std::function<void(std::uint64_t)>;
  using Destroy = detail::DestroyBefore<sparclSubscriberDestroy, std::shared_ptr<sparclState>,
                                        std::shared_ptr<OnSwap>>;
  using Handle = std::unique_ptr<sparclSubscriber, Destroy>;
  std::string reason_;
  Handle handle_;
};

}  // namespace sparcl
