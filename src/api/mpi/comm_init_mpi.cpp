#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#define SPARCL_BUILDS_MPI_LIBRARY
#include "sparcl/sparcl_mpi.h"
#include "src/api/comm.hpp"
#include "src/api/mpi/mpi_library.hpp"
#include "src/base/build_id.hpp"
#include "src/transport/mpi/first_meeting.hpp"
#include "src/transport/mpi/mpi_gather.hpp"
#include "src/transport/mpi/mpi_state.hpp"
#include "src/transport/mpi/mpi_transport.hpp"
#include "src/transport/mpi/returned_errors.hpp"

namespace {

// Names the rank and the call, as the errors of calls do. The error below says what is wrong.
sparclResult_t failed(sparclResult_t result, MPI_Comm mpi,
                      const std::string& what = sparclGetLastError(nullptr)) {
  int rank = 0;
  MPI_Comm_rank(mpi, &rank);
  return sparclInternalReportError(
      result, ("rank " + std::to_string(rank) + ": sparclCommInitMpi: " + what).c_str());
}

// A rank cannot take part: the first of them tells the others why.
sparclResult_t refused(sparclResult_t mine, MPI_Comm mpi, int by) {
  struct {
    int result;
    char text[1020];
  } told = {};
  int rank = 0;
  MPI_Comm_rank(mpi, &rank);
  if (rank == by) {
    told.result = mine;
    const std::string text = sparclGetLastError(nullptr);
    text.copy(told.text, sizeof told.text - 1);
  }
  if (MPI_Bcast(&told, sizeof told, MPI_BYTE, by, mpi) != MPI_SUCCESS)
    return failed(sparclSystemError, mpi, "MPI_Bcast failed");
  if (mine != sparclSuccess) return failed(mine, mpi);
  return failed(static_cast<sparclResult_t>(told.result), mpi,
                "rank " + std::to_string(by) + " cannot take part: " + told.text);
}

// MPI brings the ranks together, UCX moves their bytes.
sparclResult_t init_over_ucx(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(mpi, &rank);
  MPI_Comm_size(mpi, &ranks);
  const sparcl::transport::OutOfBandGather gather = [mpi](std::span<const std::byte> own) {
    return sparcl::transport::mpi_gather(mpi, own);
  };
  void* transport = nullptr;
  const sparclResult_t made = sparclInternalMakeUcx(&transport, rank, ranks, &gather, config);
  return made == sparclSuccess ? sparclInternalCommInitTransport(comm, transport, config) : made;
}

sparclResult_t report(const sparcl::Status& status) {
  return status.ok() ? sparclSuccess
                     : sparclInternalReportError(static_cast<sparclResult_t>(status.code()),
                                                 status.message().c_str());
}

// Finds errors with which no call of MPI can be made.
sparclResult_t check_mpi(MPI_Comm mpi, const char* family, std::size_t handle_bytes) {
  sparcl::Status status =
      sparcl::api::check_mpi_facts(sparcl::api::find_mpi_facts(family, handle_bytes));
  if (status.ok()) status = sparcl::transport::check_mpi_is_there(mpi);
  return report(status.with_prefix("sparclCommInitMpi: "));
}

sparclResult_t check_build() {
  const std::string other = sparclInternalBuild();
  if (other == sparcl::build_id()) return sparclSuccess;
  return sparclInternalReportError(
      sparclUnsupported,
      ("sparclCommInitMpi: libsparcl_mpi is of build " + std::string(sparcl::build_id()) +
       ", but libsparcl is of build " + other + ": install both from the same build")
          .c_str());
}

sparclResult_t check_groups(MPI_Comm mpi) {
  int joins_two_groups = 0;
  if (MPI_Comm_test_inter(mpi, &joins_two_groups) == MPI_SUCCESS && joins_two_groups == 0)
    return sparclSuccess;
  return sparclInternalReportError(
      sparclInvalidArgument,
      "sparclCommInitMpi: mpi joins two groups: merge it (MPI_Intercomm_merge) first");
}

sparclResult_t init_mpi(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  // A rank that cannot go on says so before anybody waits for it in what follows.
  sparclResult_t mine = check_build();
  if (mine == sparclSuccess) mine = sparclInternalCheckConfig(config);
  if (mine == sparclSuccess) mine = report(sparcl::transport::MpiThreads().check_this());
  if (comm == nullptr) mine = sparclInternalReportError(sparclInvalidArgument, "comm is NULL");
  int uses_ucx = 0;
  if (mine == sparclSuccess) mine = sparclInternalChooseForMpi(config, &uses_ucx);
  sparcl::transport::MpiOptions options;
  if (mine == sparclSuccess) mine = sparclInternalHeartbeat(config, &options.heartbeat);
  const bool has_heart = options.heartbeat.has_value();
  int rank = 0, size = 0;
  MPI_Comm_rank(mpi, &rank);
  MPI_Comm_size(mpi, &size);
  // The first rank of each group: the larger the value, the earlier the rank; 0: there is none.
  enum Group : std::size_t { kRefused, kUcx, kNotUcx, kHeart, kNoHeart };
  const auto place = [&](bool is_in_it) { return is_in_it ? size - rank : 0; };
  const sparcl::Result<std::vector<int>> places =
      sparcl::transport::meet_by_mpi(mpi,
                                     {place(mine != sparclSuccess), place(uses_ucx != 0),
                                      place(uses_ucx == 0), place(has_heart), place(!has_heart)},
                                     "sparclCommInitMpi", sparclInternalTimeout(config));
  if (!places.ok())
    return failed(static_cast<sparclResult_t>(places.status().code()), mpi,
                  places.status().message());
  const auto has = [&](Group group) { return (*places)[group] != 0; };
  const auto first = [&](Group group) { return size - (*places)[group]; };
  if (has(kRefused)) return refused(mine, mpi, first(kRefused));
  if (has(kUcx) && has(kNotUcx)) {
    return failed(sparclMismatch, mpi,
                  "rank " + std::to_string(first(kUcx)) + " asks for transport ucx, rank " +
                      std::to_string(first(kNotUcx)) +
                      " for mpi: give all ranks the same SPARCL_TRANSPORT and config.transport");
  }
  if (has(kHeart) && has(kNoHeart)) {
    return failed(sparclMismatch, mpi,
                  "rank " + std::to_string(first(kHeart)) + " has heartbeats, rank " +
                      std::to_string(first(kNoHeart)) +
                      " has none: set SPARCL_HEARTBEAT (config.heartbeat) alike on all ranks");
  }
  if (uses_ucx != 0) {
    const sparclResult_t made = init_over_ucx(comm, mpi, config);
    return made == sparclSuccess ? made : failed(made, mpi);
  }
  sparcl::Result<std::unique_ptr<sparcl::transport::MpiTransport>> transport =
      sparcl::transport::MpiTransport::create(mpi, options);
  if (!transport.ok()) {
    const sparcl::Status error = transport.status();
    return failed(static_cast<sparclResult_t>(error.code()), mpi, error.message());
  }
  sparcl::transport::Transport* body = transport->release();
  const sparclResult_t made = sparclInternalCommInitTransport(comm, body, config);
  return made == sparclSuccess ? made : failed(made, mpi);
}

}  // namespace

extern "C" sparclResult_t sparclInternalCommInitMpi(sparclComm_t* comm, MPI_Comm mpi,
                                                    const sparclConfig_t* config,
                                                    const char* family, std::size_t handle_bytes) {
  try {
    const sparclResult_t usable = check_mpi(mpi, family, handle_bytes);
    if (usable != sparclSuccess) return usable;
    const sparcl::transport::ReturnedErrors guard(mpi);
    const sparclResult_t joins_one_group = check_groups(mpi);
    return joins_one_group == sparclSuccess ? init_mpi(comm, mpi, config) : joins_one_group;
  } catch (const std::bad_alloc&) {
    return sparclInternalReportError(sparclOutOfMemory, "sparclCommInitMpi: out of memory");
  } catch (const std::exception& error) {
    return sparclInternalReportError(sparclInternalError, error.what());
  }
}

// For programs that do not compile sparcl_mpi.h: their MPI is not known.
extern "C" sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi,
                                            const sparclConfig_t* config) {
  return sparclInternalCommInitMpi(comm, mpi, config, SPARCL_MPI_FAMILY, sizeof(MPI_Comm));
}
