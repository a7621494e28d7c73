// Elastic aggregation: aggregators that serve workers, and workers.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <string>
#include <tuple>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

using Path = std::optional<std::string>;

struct ServeOptions {
  Path listen, publish, model_id, folder, parent, key_path, contributors_path, secret_path,
      certificates_path;
  double deadline = 0, grace_min = 0, grace_max = 0, late_factor = 0;
  std::uint64_t max_rounds_late = 0, quorum = 0;
  int round = 0, insecure = 0;
};

void serve(Aggregator& aggregator, const nb::object& state, const ServeOptions& given) {
  sparclServeOptions_t options = SPARCL_SERVE_OPTIONS_INITIALIZER;
  options.listen = text_or_null(given.listen);
  options.publish = text_or_null(given.publish);
  options.model_id = text_or_null(given.model_id);
  options.folder = text_or_null(given.folder);
  options.parent = text_or_null(given.parent);
  options.key_path = text_or_null(given.key_path);
  options.contributors_path = text_or_null(given.contributors_path);
  options.secret_path = text_or_null(given.secret_path);
  options.certificates_path = text_or_null(given.certificates_path);
  options.deadline_s = given.deadline;
  options.grace_min_s = given.grace_min;
  options.grace_max_s = given.grace_max;
  options.late_factor = given.late_factor;
  options.max_rounds_late = given.max_rounds_late;
  options.quorum = given.quorum;
  options.round = static_cast<sparclRound_t>(given.round);
  options.insecure = static_cast<sparclToggle_t>(given.insecure);
  const sparclState_t weights = nb::cast<State&>(state).get();
  run_released(
      [&, handle = aggregator.get()] { return sparclAggregatorServe(handle, weights, &options); });
  aggregator.keep(state);
}

// Of workers, and of results.
std::tuple<std::string, std::string> aggregator_addresses(const Aggregator& aggregator) {
  std::array<char, 512> workers{}, results{};
  check(sparclAggregatorAddress(aggregator.get(), workers.data(), results.data(), workers.size()));
  return {workers.data(), results.data()};
}

sparclRoundReport_t next_round(const Aggregator& aggregator, double seconds) {
  sparclRoundReport_t report = SPARCL_ROUND_REPORT_INITIALIZER;
  run_in_pieces(
      seconds,
      [&, handle = aggregator.get()](double piece) {
        return sparclAggregatorNext(handle, piece, &report);
      },
      [](sparclResult_t result) { return result == sparclTimeout; });
  return report;
}

struct WorkerOptions {
  Path model_id, secret_path, certificates_path, key_path, trust_path;
  std::uint64_t keep = 0, number = 0;
  int wire = 0, relay = 0;
};

Worker* make_worker(const nb::object& state, const std::string& address,
                    const WorkerOptions& given) {
  sparclWorkerOptions_t options = SPARCL_WORKER_OPTIONS_INITIALIZER;
  options.model_id = text_or_null(given.model_id);
  options.secret_path = text_or_null(given.secret_path);
  options.certificates_path = text_or_null(given.certificates_path);
  options.key_path = text_or_null(given.key_path);
  options.trust_path = text_or_null(given.trust_path);
  options.keep = given.keep;
  options.number = given.number;
  options.wire = static_cast<sparclWire_t>(given.wire);
  options.relay = static_cast<sparclToggle_t>(given.relay);
  const sparclState_t weights = nb::cast<State&>(state).get();
  sparclWorker_t worker = nullptr;
  run_released([&] { return sparclWorkerCreate(&worker, weights, c_text(address), &options); });
  auto* const made = new Worker(worker, "worker");
  made->keep(state);
  return made;
}

// The aggregator may come in the next piece.
std::uint64_t next_of_worker(const Worker& worker, double seconds) {
  std::uint64_t version = 0;
  run_in_pieces(
      seconds,
      [&, handle = worker.get()](double piece) {
        return sparclWorkerNext(handle, piece, &version);
      },
      [](sparclResult_t result) { return result == sparclTimeout || result == sparclRemoteError; });
  return version;
}

void flush_worker(const Worker& worker, double seconds) {
  run_in_pieces(
      seconds,
      [&, handle = worker.get()](double piece) { return sparclWorkerFlush(handle, piece); },
      [](sparclResult_t result) { return result == sparclTimeout; });
}

sparclWorkerStats_t worker_stats(const Worker& worker) {
  sparclWorkerStats_t stats = SPARCL_WORKER_STATS_INITIALIZER;
  check(sparclWorkerStats(worker.get(), &stats));
  return stats;
}

void add_reports(nb::module_& module) {
  nb::class_<sparclRoundReport_t>(module, "RoundReport", "A round that has ended.")
      .def_ro("version", &sparclRoundReport_t::version, "the round's number + 1")
      .def_ro("listed", &sparclRoundReport_t::listed,
              "contributions that count; 0: the round failed")
      .def_ro("late", &sparclRoundReport_t::late, "of these, made for earlier rounds")
      .def_ro("missing", &sparclRoundReport_t::missing,
              "workers that did not contribute by the deadline")
      .def_ro("changed", &sparclRoundReport_t::changed, "elements of the result")
      .def_ro("bytes", &sparclRoundReport_t::bytes, "of contributions, as they came")
      .def_ro("weight", &sparclRoundReport_t::weight, "of all that count")
      .def_ro("seconds", &sparclRoundReport_t::seconds,
              "from the round's end until its result was published");
  nb::class_<sparclWorkerStats_t>(module, "WorkerStats", "Facts of a worker, since it was created.")
      .def_ro("version", &sparclWorkerStats_t::version, "that the tensors started from")
      .def_ro("contributed", &sparclWorkerStats_t::contributed, "contributions")
      .def_ro("committed", &sparclWorkerStats_t::committed, "of these, in committed rounds")
      .def_ro("late", &sparclWorkerStats_t::late, "of these, in later rounds than their own")
      .def_ro("refused", &sparclWorkerStats_t::refused, "contributions that were refused")
      .def_ro("deferred", &sparclWorkerStats_t::deferred,
              "calls that sent nothing, because 8 contributions were on their way")
      .def_ro("entries", &sparclWorkerStats_t::entries, "of the last contribution")
      .def_ro("bytes", &sparclWorkerStats_t::bytes, "of the last contribution")
      .def_ro("connections", &sparclWorkerStats_t::connections, "to an aggregator")
      .def_ro("residual_l2", &sparclWorkerStats_t::residual_l2,
              "L2 norm of what is kept for later");
}

}  // namespace

void add_elastic(nb::module_& module) {
  add_reports(module);
  nb::class_<ServeOptions>(module, "ServeOptions")
      .def(nb::init<>())
      .def_rw("listen", &ServeOptions::listen, nb::arg().none())
      .def_rw("publish", &ServeOptions::publish, nb::arg().none())
      .def_rw("model_id", &ServeOptions::model_id, nb::arg().none())
      .def_rw("folder", &ServeOptions::folder, nb::arg().none())
      .def_rw("parent", &ServeOptions::parent, nb::arg().none())
      .def_rw("key_path", &ServeOptions::key_path, nb::arg().none())
      .def_rw("contributors_path", &ServeOptions::contributors_path, nb::arg().none())
      .def_rw("secret_path", &ServeOptions::secret_path, nb::arg().none())
      .def_rw("certificates_path", &ServeOptions::certificates_path, nb::arg().none())
      .def_rw("deadline", &ServeOptions::deadline)
      .def_rw("grace_min", &ServeOptions::grace_min)
      .def_rw("grace_max", &ServeOptions::grace_max)
      .def_rw("late_factor", &ServeOptions::late_factor)
      .def_rw("max_rounds_late", &ServeOptions::max_rounds_late)
      .def_rw("quorum", &ServeOptions::quorum)
      .def_rw("round", &ServeOptions::round)
      .def_rw("insecure", &ServeOptions::insecure);
  nb::class_<WorkerOptions>(module, "WorkerOptions")
      .def(nb::init<>())
      .def_rw("model_id", &WorkerOptions::model_id, nb::arg().none())
      .def_rw("secret_path", &WorkerOptions::secret_path, nb::arg().none())
      .def_rw("certificates_path", &WorkerOptions::certificates_path, nb::arg().none())
      .def_rw("key_path", &WorkerOptions::key_path, nb::arg().none())
      .def_rw("trust_path", &WorkerOptions::trust_path, nb::arg().none())
      .def_rw("keep", &WorkerOptions::keep)
      .def_rw("number", &WorkerOptions::number)
      .def_rw("wire", &WorkerOptions::wire)
      .def_rw("relay", &WorkerOptions::relay);
  nb::class_<Worker>(module, "Worker")
      .def("close", &Worker::close)
      .def_prop_ro("closed", &Worker::is_closed)
      .def("next", &next_of_worker)
      .def("contribute",
           [](const Worker& worker, double weight) {
             run_released(
                 [&, handle = worker.get()] { return sparclWorkerContribute(handle, weight); });
           })
      .def("flush", &flush_worker)
      .def("stats", &worker_stats);
  module.def("aggregator_serve", &serve);
  module.def("aggregator_addresses", &aggregator_addresses);
  module.def("aggregator_next", &next_round);
  module.def("worker_create", &make_worker);
}

}  // namespace sparcl::python
