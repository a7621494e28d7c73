#include <memory>
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

}  // namespace

extern "C" sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised == 0) return sparclInternalReportError(sparclInvalidUsage, "sparclCommInitMpi: call MPI_Init first");
  if (mpi == MPI_COMM_NULL) return sparclInternalReportError(sparclInvalidArgument, "sparclCommInitMpi: mpi is MPI_COMM_NULL");
  // A rank that cannot go on says so before anybody waits for it in what follows.
  sparclResult_t mine = sparclInternalCheckConfig(config);
  if (comm == nullptr) mine = sparclInternalReportError(sparclInvalidArgument, "comm is NULL");
  int uses_ucx = 0;
  if (mine == sparclSuccess) mine = sparclInternalChooseForMpi(config, &uses_ucx);
  sparcl::MpiOptions options;
  if (mine == sparclSuccess) mine = sparclInternalHeartbeat(config, &options.heartbeat);
  struct {
    int result, ucx, not_ucx;
  } own = {mine, uses_ucx, 1 - uses_ucx}, worst = {};
  if (MPI_Allreduce(&own, &worst, 3, MPI_INT, MPI_MAX, mpi) != MPI_SUCCESS) {
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
