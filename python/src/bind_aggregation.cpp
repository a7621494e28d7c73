// Aggregators, and their rounds.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

sparclAggregatorOptions_t aggregator_options(int mean, int outer, double learning_rate,
                                             double momentum, double beta2, double epsilon,
                                             double activation, double clip_l2, double clip_median,
                                             std::size_t keep, std::size_t delay, int non_finite,
                                             int wire) {
  sparclAggregatorOptions_t options = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  options.mean = static_cast<sparclMean_t>(mean);
  options.outer = static_cast<sparclOuter_t>(outer);
  options.learning_rate = learning_rate;
  options.momentum = momentum;
  options.beta2 = beta2;
  options.epsilon = epsilon;
  options.activation = activation;
  options.clip_l2 = clip_l2;
  options.clip_median = clip_median;
  options.keep = keep;
  options.delay = delay;
  options.non_finite = static_cast<sparclNonFinite_t>(non_finite);
  options.wire = static_cast<sparclWire_t>(wire);
  return options;
}

Aggregator* make_aggregator(std::size_t count, const sparclAggregatorOptions_t& options) {
  sparclAggregator_t aggregator = nullptr;
  check(sparclAggregatorCreate(&aggregator, count, &options));
  return new Aggregator(aggregator, "aggregator");
}

Aggregator* load_aggregator(const std::string& path) {
  sparclAggregator_t aggregator = nullptr;
  run_released([&] { return sparclAggregatorLoad(&aggregator, c_text(path)); });
  return new Aggregator(aggregator, "aggregator");
}

void save_aggregator(const Aggregator& aggregator, const std::string& path) {
  run_released(
      [&, handle = aggregator.get()] { return sparclAggregatorSave(handle, c_text(path)); });
}

sparclAggregatorStats_t aggregator_stats(const Aggregator& aggregator) {
  sparclAggregatorStats_t stats = SPARCL_AGGREGATOR_STATS_INITIALIZER;
  check(sparclAggregatorStats(aggregator.get(), &stats));
  return stats;
}

const std::uint64_t* positions_of(const ArrayView& view, const char* name) {
  if (view.type() == sparclUint64 || view.type() == sparclInt64)
    return static_cast<const std::uint64_t*>(view.data());
  const std::string text = std::string(name) + " has the type " + type_name(view.type()) +
                           ": element numbers are uint64 or int64";
  raise(sparclInvalidArgument, nb::cast(text));
}

// Entries of the result, and whether they fit: if not, nothing is written.
nb::tuple aggregate(const nb::object& comm, const nb::object& values, const nb::object& indices,
                    std::size_t count, double weight, const nb::object& out_values,
                    const nb::object& out_indices, const nb::object& aggregator,
                    const std::vector<int>& ranks, std::uintptr_t stream) {
  const sparclComm_t on = nb::cast<Comm&>(comm).get();
  const ArrayView from(values, "values", Access::kRead), at(indices, "indices", Access::kRead);
  const ArrayView to(out_values, "out_values", Access::kWrite);
  const ArrayView places(out_indices, "out_indices", Access::kWrite);
  if (from.count() != at.count() || to.count() != places.count() || from.type() != to.type())
    raise(sparclInvalidArgument,
          nb::str("values and indices do not have the same number of elements, or values and "
                  "out_values not the same type"));
  const std::uint64_t* const own = positions_of(at, "indices");
  auto* const all = const_cast<std::uint64_t*>(positions_of(places, "out_indices"));
  sparclAggregateOptions_t options = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
  options.aggregator = aggregator.is_none() ? nullptr : nb::cast<Aggregator&>(aggregator).get();
  options.ranks = ranks.empty() ? nullptr : ranks.data();
  options.rank_count = ranks.size();
  std::size_t nnz = 0;
  sparclResult_t result;
  const AbortOnInterrupt guard(on);
  {
    const ReleasedGil released;
    result = sparclAggregate(from.data(), own, from.count(), count, weight, to.data(), all, &nnz,
                             to.count(), from.type(), &options, on,
                             reinterpret_cast<sparclStream_t>(stream));
  }
  guard.raise_if_interrupted();
  if (result != sparclTruncated) check(result, on);
  return nb::make_tuple(nnz, result == sparclSuccess);
}

}  // namespace

void add_aggregation(nb::module_& module) {
  nb::class_<sparclAggregatorOptions_t>(module, "AggregatorOptions");
  nb::class_<sparclAggregatorStats_t>(module, "AggregatorStats",
                                      "Facts of the last round of an aggregator.")
      .def_ro("rounds", &sparclAggregatorStats_t::rounds,
              "all rounds, those before a save included")
      .def_ro("listed", &sparclAggregatorStats_t::listed, "contributions that counted")
      .def_ro("refused", &sparclAggregatorStats_t::refused, "contributions that did not")
      .def_ro("total_weight", &sparclAggregatorStats_t::total_weight, "of those that counted")
      .def_ro("residual_l2", &sparclAggregatorStats_t::residual_l2,
              "L2 norm of what this rank keeps for later rounds")
      .def_prop_ro(
          "own_refused", [](const sparclAggregatorStats_t& own) { return own.own_refused != 0; },
          "this rank's contribution did not count")
      .def_prop_ro(
          "own_clipped", [](const sparclAggregatorStats_t& own) { return own.own_clipped != 0; },
          "this rank's contribution was scaled down");
  nb::class_<Aggregator>(module, "Aggregator")
      .def("close", &Aggregator::close)
      .def_prop_ro("closed", &Aggregator::is_closed)
      .def("save", &save_aggregator)
      .def("stats", &aggregator_stats);
  module.def("aggregator_options", &aggregator_options);
  module.def("aggregator_create", &make_aggregator);
  module.def("aggregator_load", &load_aggregator);
  module.def("aggregate", &aggregate, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
}

}  // namespace sparcl::python
