#include "src/api/mpi/mpi_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#define SPARCL_BUILDS_MPI_LIBRARY
#include "sparcl/sparcl_mpi.h"

namespace sparcl::api {
namespace {

constexpr const char* kOpenMpi = "Open MPI";
constexpr const char* kMpich = "MPICH";

std::string family_of(const std::string& version) {
  if (version.find("Open MPI") != std::string::npos) return kOpenMpi;
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (version.find(name) != std::string::npos) return kMpich;
  }
  return "";
}

// "MPICH Version: 4.0.2\nMPICH Release date: ..." in one line.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  for (char& each : line) each = each == '\t' ? ' ' : each;
  return line;
}

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  int number = 0;
  if (text != nullptr) (void)std::from_chars(text, text + std::strlen(text), number);
  return number;
}

bool is_another(const std::string& family, const std::string& than) {
  return !family.empty() && !than.empty() && family != than;
}

Status refuse(const std::string& what) {
  return Status(
      Code::kInvalidUsage,
      fmt::format("{}: libsparcl_mpi was built for {}: compile and start the program with that "
                  "MPI's mpicc and mpirun, or build sparcl with the program's MPI",
                  what, SPARCL_MPI_NAME));
}

}  // namespace

MpiFacts find_mpi_facts(const char* program_family, std::size_t program_handle_bytes) {
  MpiFacts facts{SPARCL_MPI_FAMILY,
                 sizeof(MPI_Comm),
                 program_family == nullptr ? "" : program_family,
                 program_handle_bytes,
                 "",
                 false};
  std::array<char, 16384>
      text{};  // it may be another MPI's: Open MPI's texts have up to 256 bytes, MPICH's 8,192
  static_assert(MPI_MAX_LIBRARY_VERSION_STRING < text.size());
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  facts.running = text.data();
  const bool is_open_mpi = facts.built_family == kOpenMpi;
  if (is_open_mpi || facts.built_family == kMpich) {
    facts.has_other_loaded =
        ::dlsym(RTLD_DEFAULT, is_open_mpi ? "MPIR_Dup_fn" : "ompi_mpi_comm_world") != nullptr;
    facts.launched = number_in(is_open_mpi ? "PMI_SIZE" : "OMPI_COMM_WORLD_SIZE");
    facts.own_launcher = number_in(is_open_mpi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE") != 0;
  }
  if (is_another(family_of(facts.running), facts.built_family))
    return facts;  // no handle of ours is one of its
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized != 0 && finalized == 0) MPI_Comm_size(MPI_COMM_WORLD, &facts.world_size);
  return facts;
}

Status check_mpi_facts(const MpiFacts& facts) {
  if (is_another(facts.program_family, facts.built_family) ||
      facts.program_handle_bytes != facts.built_handle_bytes) {
    return refuse(fmt::format("the program was compiled with the mpi.h of {}",
                              facts.program_family.empty() ? "another MPI" : facts.program_family));
  }
  if (is_another(family_of(facts.running), facts.built_family))
    return refuse(fmt::format("the process runs {}", first_line(facts.running)));
  if (facts.has_other_loaded) {
    return refuse(
        fmt::format("the program is linked with {}, too",
                    facts.built_family == kOpenMpi ? "MPICH, Intel MPI or MVAPICH" : "Open MPI"));
  }
  if (facts.world_size == 1 && facts.launched > 1 && !facts.own_launcher) {
    return refuse(
        fmt::format("the launcher has started {} processes, but MPI_COMM_WORLD has 1 rank: another "
                    "MPI's launcher",
                    facts.launched));
  }
  return {};
}

}  // namespace sparcl::api
