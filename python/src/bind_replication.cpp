// Publishers and subscribers.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <chrono>
#include <tuple>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

using Text = std::optional<std::string>;

struct PublisherOptions {
  Text listen, model_id, key_path, state_path, secret_path, witness_path, certificates_path;
  std::uint64_t queue = 0, peer_bytes = 0;
  int insecure = 0, shared_memory = 0;
};

Publisher* make_publisher(const nb::object& state, const PublisherOptions& given,
                          const nb::object& store) {
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = text_or_null(given.listen);
  options.model_id = text_or_null(given.model_id);
  options.key_path = text_or_null(given.key_path);
  options.state_path = text_or_null(given.state_path);
  options.secret_path = text_or_null(given.secret_path);
  options.witness_path = text_or_null(given.witness_path);
  options.certificates_path = text_or_null(given.certificates_path);
  options.queue = given.queue;
  options.peer_bytes = given.peer_bytes;
  options.insecure = static_cast<sparclToggle_t>(given.insecure);
  options.shared_memory = static_cast<sparclToggle_t>(given.shared_memory);
  options.store = store.is_none() ? nullptr : nb::cast<Store&>(store).get();
  const sparclState_t of = nb::cast<State&>(state).get();
  sparclPublisher_t publisher = nullptr;
  run_released([&] { return sparclPublisherCreate(&publisher, of, &options); });
  auto* const made = new Publisher(publisher, "publisher");
  made->keep(state);
  return made;
}

std::string address_of(const Publisher& publisher) {
  std::array<char, 512> address{};
  check(sparclPublisherAddress(publisher.get(), address.data(), address.size()));
  return address.data();
}

// Nothing came in a piece of a wait.
bool is_early_for_publisher(sparclResult_t result) { return result == sparclTimeout; }

std::tuple<int, int> count_replicas(const Publisher& publisher, std::uint64_t version) {
  int connected = 0, holding = 0;
  check(sparclPublisherCount(publisher.get(), version, &connected, &holding));
  return {connected, holding};
}

sparclReport_t publish_report(const Publisher& publisher) {
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  check(sparclPublisherLastReport(publisher.get(), &report));
  return report;
}

struct SubscriberOptions {
  Text model_id, trust_path, record_path, secret_path, certificates_path;
  int double_buffer = 0, relay = 0, from_store = 0;
  std::uint64_t trust_threshold = 0;
  double max_age = 0;
  std::uint32_t store_patience_ms = 0;
};

Subscriber* make_subscriber(const nb::object& state, const std::string& address,
                            const SubscriberOptions& given, const nb::object& store) {
  sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  options.model_id = text_or_null(given.model_id);
  options.trust_path = text_or_null(given.trust_path);
  options.record_path = text_or_null(given.record_path);
  options.secret_path = text_or_null(given.secret_path);
  options.certificates_path = text_or_null(given.certificates_path);
  options.double_buffer = static_cast<sparclToggle_t>(given.double_buffer);
  options.relay = static_cast<sparclToggle_t>(given.relay);
  options.from_store = static_cast<sparclToggle_t>(given.from_store);
  options.trust_threshold = given.trust_threshold;
  options.max_age_s = given.max_age;
  options.store_patience_ms = given.store_patience_ms;
  options.store = store.is_none() ? nullptr : nb::cast<Store&>(store).get();
  const sparclState_t into = nb::cast<State&>(state).get();
  sparclSubscriber_t subscriber = nullptr;
  run_released(
      [&] { return sparclSubscriberCreate(&subscriber, into, c_text(address), &options); });
  auto* const made = new Subscriber(subscriber, "subscriber");
  made->keep(state);
  return made;
}

// The publisher may come, and a name may get its address, in the next piece.
bool is_early_for_subscriber(sparclResult_t result) {
  return result == sparclTimeout || result == sparclRemoteError || result == sparclSystemError;
}

// The library says that a version is stale once in each max_age, and in place of a timeout, which
// ends each piece of a wait. quiet: seconds from now for which it has been said.
template <auto kCall>  // sparclSubscriberNext or sparclSubscriberPrepare
std::uint64_t wait_for_version(const Subscriber& subscriber, double quiet, double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::uint64_t version = 0;
  const sparclSubscriber_t handle = subscriber.get();
  run_in_pieces(
      seconds, [&](double piece) { return kCall(handle, piece, &version); },
      [&](sparclResult_t result) {
        const std::chrono::duration<double> waited = Clock::now() - begin;
        return is_early_for_subscriber(result) || (result == sparclStale && waited.count() < quiet);
      });
  return version;
}

std::uint64_t next_of_group(const Subscriber& subscriber, double seconds, const Comm& comm) {
  std::uint64_t version = 0;
  const sparclSubscriber_t handle = subscriber.get();
  const sparclComm_t on = comm.get();
  run_blocking(on, [&] { return sparclSubscriberNextGroup(handle, seconds, &version, on); });
  return version;
}

std::tuple<std::uint64_t, std::uint64_t> versions_of(const Subscriber& subscriber) {
  std::uint64_t held = 0, newest = 0;
  check(sparclSubscriberVersion(subscriber.get(), &held, &newest));
  return {held, newest};
}

// Address of tensor i as the shown version has it.
std::uintptr_t tensor_address(const Subscriber& subscriber, std::size_t i) {
  const void* data = nullptr;
  check(sparclSubscriberTensor(subscriber.get(), i, &data));
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace

void add_replication(nb::module_& module) {
  nb::class_<PublisherOptions>(module, "PublisherOptions")
      .def(nb::init<>())
      .def_rw("listen", &PublisherOptions::listen, nb::arg().none())
      .def_rw("model_id", &PublisherOptions::model_id, nb::arg().none())
      .def_rw("key_path", &PublisherOptions::key_path, nb::arg().none())
      .def_rw("state_path", &PublisherOptions::state_path, nb::arg().none())
      .def_rw("secret_path", &PublisherOptions::secret_path, nb::arg().none())
      .def_rw("witness_path", &PublisherOptions::witness_path, nb::arg().none())
      .def_rw("certificates_path", &PublisherOptions::certificates_path, nb::arg().none())
      .def_rw("queue", &PublisherOptions::queue)
      .def_rw("peer_bytes", &PublisherOptions::peer_bytes)
      .def_rw("insecure", &PublisherOptions::insecure)
      .def_rw("shared_memory", &PublisherOptions::shared_memory);
  nb::class_<Publisher>(module, "Publisher")
      .def("close", &Publisher::close)
      .def_prop_ro("closed", &Publisher::is_closed)
      .def("address", &address_of)
      .def("publish",
           [](const Publisher& publisher, std::uint64_t version) {
             run_released([&, handle = publisher.get()] { return sparclPublish(handle, version); });
           })
      .def("wait",
           [](const Publisher& publisher, std::uint64_t version, int acks, double seconds) {
             const sparclPublisher_t handle = publisher.get();
             run_in_pieces(
                 seconds,
                 [&](double piece) { return sparclPublisherWait(handle, version, acks, piece); },
                 is_early_for_publisher);
           })
      .def("wait_stored",
           [](const Publisher& publisher, std::uint64_t version, double seconds) {
             const sparclPublisher_t handle = publisher.get();
             run_in_pieces(
                 seconds,
                 [&](double piece) { return sparclPublisherWaitStored(handle, version, piece); },
                 is_early_for_publisher);
           })
      .def("count", &count_replicas)
      .def("last_report", &publish_report);
  nb::class_<SubscriberOptions>(module, "SubscriberOptions")
      .def(nb::init<>())
      .def_rw("model_id", &SubscriberOptions::model_id, nb::arg().none())
      .def_rw("trust_path", &SubscriberOptions::trust_path, nb::arg().none())
      .def_rw("record_path", &SubscriberOptions::record_path, nb::arg().none())
      .def_rw("secret_path", &SubscriberOptions::secret_path, nb::arg().none())
      .def_rw("certificates_path", &SubscriberOptions::certificates_path, nb::arg().none())
      .def_rw("double_buffer", &SubscriberOptions::double_buffer)
      .def_rw("relay", &SubscriberOptions::relay)
      .def_rw("from_store", &SubscriberOptions::from_store)
      .def_rw("trust_threshold", &SubscriberOptions::trust_threshold)
      .def_rw("max_age", &SubscriberOptions::max_age)
      .def_rw("store_patience_ms", &SubscriberOptions::store_patience_ms);
  nb::class_<Subscriber>(module, "Subscriber")
      .def("close", &Subscriber::close)
      .def_prop_ro("closed", &Subscriber::is_closed)
      .def("next", &wait_for_version<&sparclSubscriberNext>)
      .def("prepare", &wait_for_version<&sparclSubscriberPrepare>)
      .def("commit",
           [](const Subscriber& subscriber, std::uint64_t version) {
             run_released([&, handle = subscriber.get()] {
               return sparclSubscriberCommit(handle, version);
             });
           })
      .def("next_of_group", &next_of_group)
      .def("versions", &versions_of)
      .def("tensor_address", &tensor_address)
      .def("pin", [](const Subscriber& subscriber, std::uint64_t version) {
        check(sparclSubscriberPin(subscriber.get(), version));
      });
  module.def("publisher_create", &make_publisher, nb::arg(), nb::arg(), nb::arg().none());
  module.def("subscriber_create", &make_subscriber, nb::arg(), nb::arg(), nb::arg(),
             nb::arg().none());
}

}  // namespace sparcl::python
