#include <memory>

#include "sparcl/sparcl_mpi.h"
#include "src/api/comm.hpp"
#include "src/transport/mpi/mpi_transport.hpp"

extern "C" sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised == 0) return sparclInternalReportError(sparclInvalidUsage, "sparclCommInitMpi: call MPI_Init first");
  if (comm == nullptr || mpi == MPI_COMM_NULL) {
    return sparclInternalReportError(sparclInvalidArgument, "sparclCommInitMpi: comm is NULL or mpi is MPI_COMM_NULL");
  }
  sparcl::Result<std::unique_ptr<sparcl::MpiTransport>> transport = sparcl::MpiTransport::create(mpi);
  if (!transport.ok()) {
    const sparcl::Status error = transport.status();
    return sparclInternalReportError(static_cast<sparclResult_t>(error.code()), error.message().c_str());
  }
  sparcl::Transport* body = transport->release();
  return sparclInternalCommInitTransport(comm, body, config);
}
