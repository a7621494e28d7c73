// Broadcasts, sums, masks and feedback. Each collective runs in place, or gives a request.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

sparclStream_t stream_of(std::uintptr_t stream) { return reinterpret_cast<sparclStream_t>(stream); }

// A call in flight, and what it uses.
class Request {
 public:
  Request(nb::object comm, std::unique_ptr<InFlight> call)
      : comm_(std::move(comm)), call_(std::move(call)) {}
  ~Request() {
    if (call_ != nullptr && call_->request != nullptr)
      nb::cast<Comm&>(comm_).adopt(std::move(call_));
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // Whether the call is over; raises what it failed with.
  bool test() {
    if (call_->request == nullptr) return raise_again(), true;
    const InUse use(is_in_use_);
    int done = 0;
    sparclResult_t result;
    {
      const ReleasedGil released;
      result = sparclTest(&call_->request, &done, &report_);
    }
    const bool is_over = done != 0 || call_->request == nullptr;
    note(result, is_over);
    if (failed_) raise_again();
    check(result);
    return is_over;
  }
  void wait() {
    if (call_->request == nullptr) return raise_again();
    const InUse use(is_in_use_);
    Comm& comm = nb::cast<Comm&>(comm_);
    const sparclComm_t handle = comm.is_closed() ? nullptr : comm.get();
    sparclResult_t result;
    const AbortOnInterrupt guard(handle);
    {
      const ReleasedGil released;
      result = sparclWait(&call_->request, &report_);
    }
    note(result, call_->request == nullptr);
    guard.raise_if_interrupted();
    if (failed_) raise_again();
    check(result);
  }
  bool is_done() const { return call_->request == nullptr; }
  std::size_t nnz() const { return call_->nnz; }
  const sparclReport_t& report() const { return report_; }

 private:
  // One thread at a time: a refusal of the library would look like the call's result.
  class InUse {
   public:
    explicit InUse(bool& flag) : flag_(flag) {
      if (flag_) raise(sparclInvalidUsage, nb::str("another thread is in a call of this request"));
      flag_ = true;
    }
    ~InUse() { flag_ = false; }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    bool& flag_;
  };
  // What the call failed with is raised each time.
  void note(sparclResult_t result, bool is_over) {
    if (!is_over) return;
    call_->views.clear();
    call_->objects.clear();
    if (result != sparclSuccess) failed_.emplace(result, last_error(result));
  }
  void raise_again() const {
    if (failed_) raise(failed_->first, failed_->second);
  }
  bool is_in_use_ = false;  // changed with the GIL
  std::optional<std::pair<sparclResult_t, nb::object>> failed_;
  nb::object comm_;
  std::unique_ptr<InFlight> call_;
  sparclReport_t report_ = SPARCL_REPORT_INITIALIZER;
};

// What a call gets: its communicator, and whether it is non-blocking.
struct Place {
  nb::object object;
  Comm& comm;
  sparclStream_t stream;
  bool is_async;

  Place(nb::object given, std::uintptr_t stream_, bool is_async_)
      : object(std::move(given)),
        comm(nb::cast<Comm&>(object)),
        stream(stream_of(stream_)),
        is_async(is_async_) {}
};

// blocking() and start(request) make the call. The result is None, or a request, which keeps
// `used` until the call is over.
template <class Blocking, class Start>
nb::object run(const Place& place, std::unique_ptr<InFlight> used, Blocking&& blocking,
               Start&& start) {
  const sparclComm_t comm = place.comm.get();
  if (!place.is_async) {
    run_blocking(comm, blocking);
    return nb::none();
  }
  place.comm.drop_ended_orphans();
  sparclResult_t result;
  {
    const ReleasedGil released;
    result = start(&used->request);
  }
  check(result, comm);
  return nb::cast(new Request(place.object, std::move(used)), nb::rv_policy::take_ownership);
}

void expect_same(const ArrayView& first, const ArrayView& second, const char* names) {
  std::string text;
  if (first.type() != second.type())
    text = std::string(names) + " have the types " + type_name(first.type()) + " and " +
           type_name(second.type()) + ": make them the same";
  else if (first.count() != second.count())
    text = std::string(names) + " have " + std::to_string(first.count()) + " and " +
           std::to_string(second.count()) + " elements: make them the same";
  else if (const auto* one = static_cast<const char*>(first.data()),
           *other = static_cast<const char*>(second.data());
           one != other && one < other + second.count() * bytes_of_type(second.type()) &&
           other < one + first.count() * bytes_of_type(first.type()))
    text = std::string(names) + " overlap: pass the same memory, or other memory";
  else if (first.is_on_device() != second.is_on_device())
    text = std::string(names) + " are in host and in device memory: put both on one side";
  if (!text.empty()) raise(sparclInvalidArgument, nb::cast(text));
}

const std::uint64_t* indices_of(const ArrayView& view, const char* name) {
  if (view.type() == sparclUint64 || view.type() == sparclInt64)
    return static_cast<const std::uint64_t*>(view.data());
  const std::string text = std::string(name) + " has the type " + type_name(view.type()) +
                           ": element numbers are uint64 or int64";
  raise(sparclInvalidArgument, nb::cast(text));
}

nb::object broadcast_delta(nb::object comm, const nb::object& weights, const nb::object& base,
                           int root, const std::optional<std::string>& algorithm, int verify,
                           int commit, std::uintptr_t stream, bool is_async) {
  const Place place(std::move(comm), stream, is_async);
  auto used = std::make_unique<InFlight>();
  used->views.emplace_back(weights, "weights", Access::kWrite);
  if (!base.is_none()) used->views.emplace_back(base, "base", Access::kRead);
  const ArrayView& array = used->views[0];
  if (!base.is_none()) expect_same(array, used->views[1], "weights and base");
  void* const data = array.data();
  const void* const held = base.is_none() ? nullptr : used->views[1].data();
  const std::size_t count = array.count();
  const sparclDataType_t type = array.type();
  sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
  options.algorithm = text_or_null(algorithm);
  options.verify = static_cast<sparclVerify_t>(verify);
  options.commit = static_cast<sparclCommit_t>(commit);
  const sparclComm_t on = place.comm.get();
  return run(
      place, std::move(used),
      [&] {
        return sparclBroadcastDelta(data, held, count, type, root, &options, on, place.stream);
      },
      [&](sparclRequest_t* request) {
        return sparclIBroadcastDelta(data, held, count, type, root, &options, on, place.stream,
                                     request);
      });
}

nb::object broadcast_update(nb::object comm, const nb::object& state, std::uint64_t version,
                            int root, sparclUpdateOptions_t options,
                            const std::optional<std::string>& algorithm, std::uintptr_t stream,
                            bool is_async) {
  const Place place(std::move(comm), stream, is_async);
  auto used = std::make_unique<InFlight>();
  const sparclState_t handle = nb::cast<State&>(state).get();
  used->objects.push_back(state);
  options.algorithm = text_or_null(algorithm);
  const sparclComm_t on = place.comm.get();
  return run(
      place, std::move(used),
      [&] { return sparclBroadcastUpdate(handle, version, root, &options, on, place.stream); },
      [&](sparclRequest_t* request) {
        return sparclIBroadcastUpdate(handle, version, root, &options, on, place.stream, request);
      });
}

// nnz: entries of the root. Gives the entries, and whether they fit: if not, nothing is written.
nb::tuple broadcast_sparse(nb::object comm, const nb::object& values, const nb::object& indices,
                           std::size_t nnz, int root, const std::optional<std::string>& algorithm,
                           int verify, std::uintptr_t stream) {
  const Place place(std::move(comm), stream, false);
  const sparclComm_t on = place.comm.get();
  int rank = 0;
  check(sparclCommUserRank(on, &rank), on);
  const Access access = rank == root ? Access::kRead : Access::kWrite;
  const ArrayView held(values, "values", access), numbers(indices, "indices", access);
  std::uint64_t* const places = const_cast<std::uint64_t*>(indices_of(numbers, "indices"));
  if (held.count() != numbers.count()) {
    const std::string text = "values and indices have " + std::to_string(held.count()) + " and " +
                             std::to_string(numbers.count()) + " elements: make them the same";
    raise(sparclInvalidArgument, nb::cast(text));
  }
  sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
  options.algorithm = text_or_null(algorithm);
  options.verify = static_cast<sparclVerify_t>(verify);
  sparclResult_t result;
  const AbortOnInterrupt guard(on);
  {
    const ReleasedGil released;
    result = sparclBroadcastSparse(held.data(), places, &nnz, held.count(), held.type(), root,
                                   &options, on, place.stream);
  }
  guard.raise_if_interrupted();
  if (result != sparclTruncated) check(result, on);
  return nb::make_tuple(nnz, result == sparclSuccess);
}

// Input and output of a sum, which `used` keeps.
struct SumArrays {
  const void* in;
  void* out;
  std::size_t count;
  sparclDataType_t type;
};

SumArrays take_sum(InFlight& used, const nb::object& send, const nb::object& receive) {
  used.views.emplace_back(send, "x", Access::kRead);
  used.views.emplace_back(receive, "out", Access::kWrite);
  const ArrayView &from = used.views[0], &to = used.views[1];
  expect_same(from, to, "x and out");
  return {from.data(), to.data(), from.count(), from.type()};
}

nb::object all_reduce_masked(nb::object comm, const nb::object& send, const nb::object& receive,
                             int op, const nb::object& mask, const nb::object& feedback,
                             const std::optional<std::string>& algorithm, int outside,
                             int determinism, std::uintptr_t stream, bool is_async) {
  const Place place(std::move(comm), stream, is_async);
  auto used = std::make_unique<InFlight>();
  used->objects = {mask, feedback};
  const SumArrays sum = take_sum(*used, send, receive);
  const sparclMask_t elements = nb::cast<Mask&>(mask).get();
  const sparclFeedback_t rest = feedback.is_none() ? nullptr : nb::cast<Feedback&>(feedback).get();
  sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
  options.algorithm = text_or_null(algorithm);
  options.outside = static_cast<sparclOutside_t>(outside);
  options.determinism = static_cast<sparclDeterminism_t>(determinism);
  const sparclComm_t on = place.comm.get();
  const auto reduce = static_cast<sparclRedOp_t>(op);
  return run(
      place, std::move(used),
      [&] {
        return sparclAllReduceMasked(sum.in, sum.out, sum.count, sum.type, reduce, elements, rest,
                                     &options, on, place.stream);
      },
      [&](sparclRequest_t* request) {
        return sparclIAllReduceMasked(sum.in, sum.out, sum.count, sum.type, reduce, elements, rest,
                                      &options, on, place.stream, request);
      });
}

struct TopKOptions {
  std::optional<std::string> algorithm;
  int mode = 0, wire = 0, determinism = 0, residual = 0, reuse_threshold = 0, device_kernels = 0;
  std::vector<std::uint64_t> tensors;
};

nb::object all_reduce_top_k(nb::object comm, const nb::object& send, const nb::object& receive,
                            std::size_t k, int op, const nb::object& feedback,
                            const TopKOptions& given, std::uintptr_t stream, bool is_async) {
  const Place place(std::move(comm), stream, is_async);
  auto used = std::make_unique<InFlight>();
  used->objects = {feedback};
  const SumArrays sum = take_sum(*used, send, receive);
  const sparclFeedback_t rest = feedback.is_none() ? nullptr : nb::cast<Feedback&>(feedback).get();
  sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
  options.algorithm = text_or_null(given.algorithm);
  options.mode = static_cast<sparclTopKMode_t>(given.mode);
  options.wire = static_cast<sparclWire_t>(given.wire);
  options.determinism = static_cast<sparclDeterminism_t>(given.determinism);
  options.residual = static_cast<sparclResidual_t>(given.residual);
  options.reuse_threshold = static_cast<sparclToggle_t>(given.reuse_threshold);
  options.device_kernels = static_cast<sparclToggle_t>(given.device_kernels);
  options.tensors = given.tensors.empty() ? nullptr : given.tensors.data();
  options.tensor_count = given.tensors.size();
  const sparclComm_t on = place.comm.get();
  const auto reduce = static_cast<sparclRedOp_t>(op);
  return run(
      place, std::move(used),
      [&] {
        return sparclAllReduceTopK(sum.in, sum.out, sum.count, k, sum.type, reduce, rest, &options,
                                   on, place.stream);
      },
      [&](sparclRequest_t* request) {
        return sparclIAllReduceTopK(sum.in, sum.out, sum.count, k, sum.type, reduce, rest, &options,
                                    on, place.stream, request);
      });
}

struct SparseOptions {
  std::optional<std::string> algorithm;
  int determinism = 0, wire = 0;

  sparclSparseOptions_t c() const {
    sparclSparseOptions_t options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
    options.algorithm = text_or_null(algorithm);
    options.determinism = static_cast<sparclDeterminism_t>(determinism);
    options.wire = static_cast<sparclWire_t>(wire);
    return options;
  }
};

// Entries of the union, and whether they fit: if not, nothing is written. Non-blocking: a request,
// whose nnz() tells them.
nb::object all_reduce_sparse(nb::object comm, const nb::object& values, const nb::object& indices,
                             std::size_t count, const nb::object& out_values,
                             const nb::object& out_indices, int op, const SparseOptions& given,
                             std::uintptr_t stream, bool is_async) {
  const Place place(std::move(comm), stream, is_async);
  auto used = std::make_unique<InFlight>();
  used->views.emplace_back(values, "values", Access::kRead);
  used->views.emplace_back(indices, "indices", Access::kRead);
  used->views.emplace_back(out_values, "out_values", Access::kWrite);
  used->views.emplace_back(out_indices, "out_indices", Access::kWrite);
  InFlight* const call = used.get();
  const std::vector<ArrayView>& views = call->views;
  if (views[0].count() != views[1].count() || views[2].count() != views[3].count() ||
      views[0].type() != views[2].type())
    raise(sparclInvalidArgument,
          nb::str("values and indices do not have the same number of elements, or values and "
                  "out_values not the same type"));
  const void* const in = views[0].data();
  const std::uint64_t* const places = indices_of(views[1], "indices");
  const std::size_t nnz = views[0].count(), capacity = views[2].count();
  void* const out = views[2].data();
  std::uint64_t* const out_places = const_cast<std::uint64_t*>(indices_of(views[3], "out_indices"));
  const sparclDataType_t type = views[0].type();
  const sparclSparseOptions_t options = given.c();
  const sparclComm_t on = place.comm.get();
  const auto reduce = static_cast<sparclRedOp_t>(op);
  if (is_async)
    return run(
        place, std::move(used), [] { return sparclInternalError; },
        [&](sparclRequest_t* request) {
          return sparclIAllReduceSparse(in, places, nnz, count, out, out_places, &call->nnz,
                                        capacity, type, reduce, &options, on, place.stream,
                                        request);
        });
  sparclResult_t result;
  const AbortOnInterrupt guard(on);
  {
    const ReleasedGil released;
    result = sparclAllReduceSparse(in, places, nnz, count, out, out_places, &call->nnz, capacity,
                                   type, reduce, &options, on, place.stream);
  }
  guard.raise_if_interrupted();
  if (result != sparclTruncated) check(result, on);
  return nb::make_tuple(call->nnz, result == sparclSuccess);
}

Mask* make_mask_of(const nb::object& indices, std::size_t count) {
  const ArrayView view(indices, "indices", Access::kRead);
  const std::uint64_t* const places = indices_of(view, "indices");
  sparclMask_t mask = nullptr;
  run_released([&] { return sparclMaskCreateIndices(&mask, places, view.count(), count); });
  return new Mask(mask, "mask");
}

// block: 0: elements are drawn, not blocks.
Mask* make_random_mask(std::size_t count, double density, std::uint64_t seed, std::size_t block) {
  sparclMask_t mask = nullptr;
  run_released([&] {
    return block == 0 ? sparclMaskCreateRandom(&mask, count, density, seed)
                      : sparclMaskCreateBlocks(&mask, count, block, density, seed);
  });
  return new Mask(mask, "mask");
}

std::size_t mask_count(const Mask& mask) {
  std::size_t nnz = 0;
  check(sparclMaskGetIndices(mask.get(), nullptr, 0, &nnz));
  return nnz;
}

void mask_indices(const Mask& mask, const nb::object& out) {
  const ArrayView view(out, "out", Access::kWrite);
  auto* const places = const_cast<std::uint64_t*>(indices_of(view, "out"));
  const sparclMask_t handle = mask.get();
  std::size_t nnz = 0;
  run_released([&] { return sparclMaskGetIndices(handle, places, view.count(), &nnz); });
}

Feedback* make_feedback(std::size_t count, const std::string& type) {
  const sparclDataType_t number = type_of_name(type, "dtype");
  sparclFeedback_t feedback = nullptr;
  run_released([&] { return sparclFeedbackCreate(&feedback, count, number); });
  return new Feedback(feedback, "feedback");
}

Feedback* load_feedback(const std::string& path) {
  sparclFeedback_t feedback = nullptr;
  run_released([&] { return sparclFeedbackLoad(&feedback, c_text(path)); });
  return new Feedback(feedback, "feedback");
}

// A copy of the bytes, and their type.
nb::tuple feedback_residual(const Feedback& feedback) {
  const void* residual = nullptr;
  std::size_t count = 0;
  sparclDataType_t type = sparclFloat32;
  check(sparclFeedbackGetResidual(feedback.get(), &residual, &count, &type));
  const auto bytes = static_cast<Py_ssize_t>(count * bytes_of_type(type));
  // With the GIL: the memory is the feedback's, which another thread may close.
  nb::object copy =
      nb::steal(PyByteArray_FromStringAndSize(static_cast<const char*>(residual), bytes));
  if (!copy.is_valid()) throw nb::python_error();
  return nb::make_tuple(copy, type_name(type));
}

sparclFeedbackStats_t feedback_stats(const Feedback& feedback) {
  sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
  run_released([&, handle = feedback.get()] { return sparclFeedbackStats(handle, &stats); });
  return stats;
}

}  // namespace

void add_collectives(nb::module_& module) {
  nb::class_<Request>(module, "Request")
      .def("test", &Request::test)
      .def("wait", &Request::wait)
      .def("nnz", &Request::nnz)
      .def_prop_ro("report", &Request::report)
      .def_prop_ro("done", &Request::is_done);
  nb::class_<TopKOptions>(module, "TopKOptions")
      .def(nb::init<std::optional<std::string>, int, int, int, int, int, int,
                    std::vector<std::uint64_t>>(),
           nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg());
  nb::class_<SparseOptions>(module, "SparseOptions")
      .def(nb::init<std::optional<std::string>, int, int>(), nb::arg().none(), nb::arg(),
           nb::arg());
  nb::class_<Mask>(module, "Mask")
      .def("close", &Mask::close)
      .def("set_step",
           [](const Mask& mask, std::uint64_t step) {
             run_released([&, handle = mask.get()] { return sparclMaskSetStep(handle, step); });
           })
      .def("count", &mask_count)
      .def("indices", &mask_indices);
  nb::class_<sparclFeedbackStats_t>(module, "FeedbackStats",
                                    "Statistics of the last call with a feedback.")
      .def_ro("calls", &sparclFeedbackStats_t::calls,
              "since the feedback was made, loaded or reset")
      .def_ro("selected", &sparclFeedbackStats_t::selected, "elements that this rank selected")
      .def_ro("sent", &sparclFeedbackStats_t::sent, "elements of this rank in the result")
      .def_ro("passes", &sparclFeedbackStats_t::passes, "over the array")
      .def_ro("sent_mass", &sparclFeedbackStats_t::sent_mass,
              "sum of |value| over the sent elements")
      .def_ro("dropped_l2", &sparclFeedbackStats_t::dropped_l2, "L2 norm of what was not selected")
      .def_ro("residual_l2", &sparclFeedbackStats_t::residual_l2, "L2 norm of the residual now")
      .def_ro("threshold", &sparclFeedbackStats_t::threshold,
              "smallest magnitude that was selected")
      .def_ro("threshold_drift", &sparclFeedbackStats_t::threshold_drift,
              "threshold / threshold of the call before");
  nb::class_<Feedback>(module, "Feedback")
      .def("close", &Feedback::close)
      .def("save",
           [](const Feedback& feedback, const std::string& path) {
             run_released(
                 [&, handle = feedback.get()] { return sparclFeedbackSave(handle, c_text(path)); });
           })
      .def("reset",
           [](const Feedback& feedback) {
             run_released([handle = feedback.get()] { return sparclFeedbackReset(handle); });
           })
      .def("residual", &feedback_residual)
      .def("stats", &feedback_stats);
  module.def("mask_of_indices", &make_mask_of, nb::arg().none(), nb::arg());
  module.def("mask_random", &make_random_mask);
  module.def("feedback_create", &make_feedback);
  module.def("feedback_load", &load_feedback);
  module.def("broadcast_delta", &broadcast_delta, nb::arg(), nb::arg().none(), nb::arg().none(),
             nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
  module.def("broadcast_update", &broadcast_update, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  module.def("broadcast_sparse", &broadcast_sparse, nb::arg(), nb::arg().none(), nb::arg().none(),
             nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  module.def("all_reduce_masked", &all_reduce_masked, nb::arg(), nb::arg().none(), nb::arg().none(),
             nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg());
  module.def("all_reduce_top_k", &all_reduce_top_k, nb::arg(), nb::arg().none(), nb::arg().none(),
             nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg());
  module.def("all_reduce_sparse", &all_reduce_sparse, nb::arg(), nb::arg().none(), nb::arg().none(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
}

}  // namespace sparcl::python
