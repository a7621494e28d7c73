#include <exception>
#include <memory>
#include <new>
#include <string>

#include "sparcl/sparcl_mpi.h"
#include "src/api/comm.hpp"
#include "src/transport/mpi/mpi_gather.hpp"
#include "src/transport/mpi/mpi_transport.hpp"

namespace {

// What failed below says what is wrong: this says whose call it was. As the errors of calls begin.
sparclResult_t failed(sparclResult_t result, MPI_Comm mpi, const std::string& what = sparclGetLastError(nullptr)) {
  int rank = 0;
  MPI_Comm_rank(mpi, &rank);
  return sparclInternalReportError(result, ("rank " + std::to_string(rank) + ": sparclCommInitMpi: " + what).c_str());
}

// MPI brings the ranks together, UCX moves their bytes.
sparclResult_t init_over_ucx(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  int rank = 0;
  MPI_Comm_rank(mpi, &rank);
  const sparcl::OutOfBandGather gather = [mpi](std::span<const std::byte> own) { return sparcl::mpi_gather(mpi, own); };
  void* transport = nullptr;
  const sparclResult_t made = sparclInternalMakeUcx(&transport, rank, &gather, config);
  return made == sparclSuccess ? sparclInternalCommInitTransport(comm, transport, config) : made;
}

// What no call of MPI could be made with.
sparclResult_t check_mpi(MPI_Comm mpi) {
  const auto refuse = [](sparclResult_t result, const char* what) { return sparclInternalReportError(result, what); };
  int is_initialised = 0, is_finalised = 0, joins_two_groups = 0;
  MPI_Initialized(&is_initialised);
  if (is_initialised == 0) return refuse(sparclInvalidUsage, "sparclCommInitMpi: call MPI_Init first");
  MPI_Finalized(&is_finalised);
  if (is_finalised != 0) return refuse(sparclInvalidUsage, "sparclCommInitMpi: MPI_Finalize has been called");
  if (mpi == MPI_COMM_NULL) return refuse(sparclInvalidArgument, "sparclCommInitMpi: mpi is MPI_COMM_NULL");
  if (MPI_Comm_test_inter(mpi, &joins_two_groups) == MPI_SUCCESS && joins_two_groups == 0) return sparclSuccess;
  return refuse(sparclInvalidArgument, "sparclCommInitMpi: mpi joins two groups: merge it (MPI_Intercomm_merge) first");
}

sparclResult_t init_mpi(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  // A rank that cannot go on says so before anybody waits for it in what follows.
  sparclResult_t mine = sparclInternalCheckConfig(config);
  if (comm == nullptr) mine = sparclInternalReportError(sparclInvalidArgument, "comm is NULL");
  int uses_ucx = 0;
  if (mine == sparclSuccess) mine = sparclInternalChooseForMpi(config, &uses_ucx);
  sparcl::MpiOptions options;
  if (mine == sparclSuccess) mine = sparclInternalHeartbeat(config, &options.heartbeat);
  const int has_heart = options.heartbeat ? 1 : 0;
  struct {
    int result, ucx, not_ucx, heart, no_heart;
  } own = {mine, uses_ucx, 1 - uses_ucx, has_heart, 1 - has_heart}, worst = {};
  if (MPI_Allreduce(&own, &worst, 5, MPI_INT, MPI_MAX, mpi) != MPI_SUCCESS) {
    return failed(sparclSystemError, mpi, "MPI_Allreduce failed");
  }
  if (mine != sparclSuccess) return failed(mine, mpi);
  if (worst.result != sparclSuccess) {
    return failed(static_cast<sparclResult_t>(worst.result), mpi,
                  "another rank refused its config, its SPARCL_ settings or its arguments");
  }
  if (worst.ucx != 0 && worst.not_ucx != 0) {
    return failed(sparclMismatch, mpi,
                  "some ranks ask for transport ucx, others for mpi: give all of them the same SPARCL_TRANSPORT and "
                  "config.transport");
  }
  if (worst.heart != 0 && worst.no_heart != 0) {
    return failed(sparclMismatch, mpi,
                  "some ranks have heartbeats, others have none: set SPARCL_HEARTBEAT (config.heartbeat) alike on all ranks");
  }
  if (uses_ucx != 0) {
    const sparclResult_t made = init_over_ucx(comm, mpi, config);
    return made == sparclSuccess ? made : failed(made, mpi);
  }
  sparcl::Result<std::unique_ptr<sparcl::MpiTransport>> transport = sparcl::MpiTransport::create(mpi, options);
  if (!transport.ok()) {
    const sparcl::Status error = transport.status();
    return failed(static_cast<sparclResult_t>(error.code()), mpi, error.message());
  }
  sparcl::Transport* body = transport->release();
  const sparclResult_t made = sparclInternalCommInitTransport(comm, body, config);
  return made == sparclSuccess ? made : failed(made, mpi);
}

}  // namespace

extern "C" sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  try {
    const sparclResult_t usable = check_mpi(mpi);
    return usable == sparclSuccess ? init_mpi(comm, mpi, config) : usable;
  } catch (const std::bad_alloc&) {
    return sparclInternalReportError(sparclOutOfMemory, "sparclCommInitMpi: out of memory");
  } catch (const std::exception& error) {
    return sparclInternalReportError(sparclInternalError, error.what());
  }
}
