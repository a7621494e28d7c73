// Communicators, requests and reports.

#include <dlfcn.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

struct Config {
  std::optional<std::string> transport;
  double timeout = 0, liveness = 0;
  int verify = 0, determinism = 0, threads = 0, heartbeat = 0;

  sparclConfig_t c() const {
    sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
    config.transport = text_or_null(transport);
    config.timeout_s = timeout;
    config.liveness_s = liveness;
    config.verify = static_cast<sparclVerify_t>(verify);
    config.determinism = static_cast<sparclDeterminism_t>(determinism);
    config.threads = threads;
    config.heartbeat = static_cast<sparclToggle_t>(heartbeat);
    return config;
  }
};

nb::list make_local(int ranks) {
  constexpr int kMost = 65'536;  // more are refused by the call
  std::vector<sparclComm_t> comms(static_cast<std::size_t>(std::clamp(ranks, 0, kMost)));
  check(sparclCommInitLocal(comms.data(), ranks));
  nb::list made;
  for (const sparclComm_t comm : comms)
    made.append(nb::cast(new Comm(comm), nb::rv_policy::take_ownership));
  return made;
}

nb::bytes make_unique_id() {
  sparclUniqueId id;
  check(sparclGetUniqueId(&id));
  return nb::bytes(id.internal, sizeof id.internal);
}

Comm* make_from_id(int ranks, const nb::bytes& bytes, int rank, const Config& config) {
  sparclUniqueId id;
  if (bytes.size() != sizeof id.internal) {
    const std::string text =
        "id has " + std::to_string(bytes.size()) +
        " bytes: pass the 128 bytes of sparcl.unique_id(), the same on all ranks";
    raise(sparclInvalidArgument, nb::cast(text));
  }
  std::memcpy(id.internal, bytes.c_str(), sizeof id.internal);
  (void)config.c();  // raises here, and not in the thread
  const auto comm = std::make_shared<sparclComm_t>(nullptr);
  run_aside(
      [=] {
        const sparclConfig_t options = config.c();
        return sparclCommInitRank(comm.get(), ranks, id, rank, &options);
      },
      [=] { sparclCommDestroy(*comm); });
  return new Comm(*comm);
}

// library: path of libsparcl_mpi; handle: address of an MPI_Comm of that MPI.
Comm* make_from_mpi(const std::string& library, std::uintptr_t handle, std::size_t handle_bytes,
                    const std::string& family, const Config& config) {
  void* const loaded = dlopen(c_text(library), RTLD_NOW | RTLD_LOCAL);
  const char* const why = loaded == nullptr ? dlerror() : nullptr;
  void* const call = loaded == nullptr ? nullptr : dlsym(loaded, "sparclInternalCommInitMpi");
  if (call == nullptr) {
    const std::string text =
        "sparcl's MPI library cannot be loaded: " +
        std::string(why == nullptr ? library + " has no sparclInternalCommInitMpi" : why);
    raise(sparclUnsupported, nb::cast(text));
  }
  const sparclConfig_t options = config.c();
  sparclComm_t comm = nullptr;
  // An MPI_Comm is a pointer or an int, passed by value.
  const auto init = [&](auto mpi) {
    std::memcpy(&mpi, reinterpret_cast<const void*>(handle), sizeof mpi);
    using Init = sparclResult_t (*)(sparclComm_t*, decltype(mpi), const sparclConfig_t*,
                                    const char*, std::size_t);
    return reinterpret_cast<Init>(call)(&comm, mpi, &options, c_text(family), handle_bytes);
  };
  run_released(
      [&] { return handle_bytes == sizeof(int) ? init(0) : init(static_cast<void*>(nullptr)); });
  return new Comm(comm);
}

int rank_of(const Comm& comm) {
  int rank = 0;
  check(sparclCommUserRank(comm.get(), &rank), comm.get());
  return rank;
}

int count_of(const Comm& comm) {
  int count = 0;
  check(sparclCommCount(comm.get(), &count), comm.get());
  return count;
}

Comm* shrink(const Comm& comm) {
  sparclComm_t survivors = nullptr;
  run_blocking(comm.get(), [&] { return sparclCommShrink(comm.get(), &survivors); });
  return new Comm(survivors);
}

sparclReport_t last_report(const Comm& comm) {
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  check(sparclCommLastReport(comm.get(), &report), comm.get());
  return report;
}

int async_error(const Comm& comm) {
  sparclResult_t error = sparclSuccess;
  check(sparclCommGetAsyncError(comm.get(), &error), comm.get());
  return error;
}

int failed_rank(const Comm& comm) {
  int rank = -1;
  check(sparclCommGetFailedRank(comm.get(), &rank), comm.get());
  return rank;
}

void use_nccl(const Comm& comm, const std::optional<nb::bytes>& id, std::uintptr_t nccl) {
  sparclNcclOptions_t options = SPARCL_NCCL_OPTIONS_INITIALIZER;
  if (id && id->size() != sizeof(sparclUniqueId)) {
    const std::string text = "id has " + std::to_string(id->size()) +
                             " bytes: pass the 128 bytes of ncclGetUniqueId, made on one rank";
    raise(sparclInvalidArgument, nb::cast(text));
  }
  if (id) options.unique_id = id->c_str();
  options.comm = reinterpret_cast<void*>(nccl);
  run_blocking(comm.get(), [&] { return sparclCommUseNccl(comm.get(), &options); });
}

void synchronise(const Comm& comm, std::uintptr_t stream) {
  run_blocking(comm.get(), [&] {
    return sparclCommStreamSynchronize(comm.get(), reinterpret_cast<sparclStream_t>(stream));
  });
}

}  // namespace

void add_communicators(nb::module_& module) {
  nb::class_<Config>(module, "Config")
      .def(nb::init<>())
      .def_rw("transport", &Config::transport, nb::arg().none())
      .def_rw("timeout", &Config::timeout)
      .def_rw("liveness", &Config::liveness)
      .def_rw("verify", &Config::verify)
      .def_rw("determinism", &Config::determinism)
      .def_rw("threads", &Config::threads)
      .def_rw("heartbeat", &Config::heartbeat);
  nb::class_<sparclReport_t>(module, "Report",
                             "Figures of a call on this rank. Bytes are those on the wire.")
      .def_prop_ro("algorithm",
                   [](const sparclReport_t& report) {
                     return report.algorithm == nullptr ? "" : report.algorithm;
                   })
      .def_ro("nnz_in", &sparclReport_t::nnz_in, "changed elements, or entries, that were sent")
      .def_ro("nnz_out", &sparclReport_t::nnz_out, "changed elements, or entries, of the result")
      .def_ro("bytes_sent", &sparclReport_t::bytes_sent)
      .def_ro("bytes_received", &sparclReport_t::bytes_received)
      .def_ro("bytes_dense", &sparclReport_t::bytes_dense,
              "that the dense call would deliver to this rank")
      .def_ro("bytes_bound", &sparclReport_t::bytes_bound, "lower bound of an exact call")
      .def_ro("seconds", &sparclReport_t::seconds)
      .def_ro("seconds_predicted", &sparclReport_t::seconds_predicted)
      .def_ro("seconds_select", &sparclReport_t::seconds_select)
      .def_ro("seconds_exchange", &sparclReport_t::seconds_exchange)
      .def_ro("dropped_l2", &sparclReport_t::dropped_l2)
      .def_prop_ro("applied", [](const sparclReport_t& report) { return report.applied != 0; })
      .def_prop_ro(
          "wire",
          [](const sparclReport_t& report) -> nb::object {
            if (report.wire_datatype < 0) return nb::none();
            return nb::cast(type_name(static_cast<sparclDataType_t>(report.wire_datatype)));
          },
          "name of the type that a sum was sent in; None: no sum");
  nb::class_<Comm>(module, "Comm")
      .def("close", &Comm::close)
      .def_prop_ro("closed", &Comm::is_closed)
      .def("rank", &rank_of)
      .def("count", &count_of)
      .def("last_report", &last_report)
      .def("async_error", &async_error)
      .def("failed_rank", &failed_rank)
      .def("abort", [](const Comm& comm) { check(sparclCommAbort(comm.get()), comm.get()); })
      .def("refuse",
           [](const Comm& comm, const std::string& why) {
             run_blocking(comm.get(), [&] { return sparclCommRefuse(comm.get(), c_text(why)); });
           })
      .def("shrink", &shrink)
      .def("use_nccl", &use_nccl, nb::arg("id").none(), nb::arg("nccl"))
      .def("synchronise", &synchronise);
  module.def("comm_local", &make_local);
  module.def("unique_id", &make_unique_id);
  module.def("comm_from_id", &make_from_id);
  module.def("comm_from_mpi", &make_from_mpi);
}

}  // namespace sparcl::python
