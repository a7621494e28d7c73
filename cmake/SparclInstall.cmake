# The install tree: libraries, public headers, the CMake package and the pkg-config files. tools/ installs its programs itself.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sparcl)

install(TARGETS sparcl EXPORT sparclTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(SPARCL_WITH_UCX)  # nobody links it: it is in no export set
  install(TARGETS sparcl_ucx_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/sparcl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN sparcl_mpi.h EXCLUDE)
install(FILES kernels/kokkos/include/sparcl/kokkos_kernels.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sparcl)
install(EXPORT sparclTargets NAMESPACE sparcl:: DESTINATION ${package_folder})

# Who links sparcl::mpi must do so with the same MPI.
foreach(language C CXX)
  set(SPARCL_MPI_${language}_COMPILER)
  if(SPARCL_WITH_MPI AND MPI_${language}_COMPILER)
    find_program(SPARCL_MPI_${language}_COMPILER NAMES ${MPI_${language}_COMPILER} NO_CACHE)
  endif()
endforeach()
list(TRANSFORM MPI_C_LIBRARIES REPLACE ".*/" "" OUTPUT_VARIABLE SPARCL_MPI_LIBRARY_NAMES)
configure_package_config_file(cmake/sparclConfig.cmake.in ${PROJECT_BINARY_DIR}/sparclConfig.cmake INSTALL_DESTINATION ${package_folder})
# Before 1.0 a new minor version may break callers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sparclConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sparclConfig.cmake ${PROJECT_BINARY_DIR}/sparclConfigVersion.cmake cmake/SparclKokkos.cmake
        DESTINATION ${package_folder})

# Relative to the .pc file, so that the tree can be moved.
file(RELATIVE_PATH SPARCL_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/sparcl.pc.in ${PROJECT_BINARY_DIR}/sparcl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sparcl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(SPARCL_WITH_MPI)
  install(TARGETS sparcl_mpi EXPORT sparclMpiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES include/sparcl/sparcl_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sparcl)
  install(EXPORT sparclMpiTargets NAMESPACE sparcl:: DESTINATION ${package_folder})
  list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE flags)
  list(TRANSFORM SPARCL_MPI_DEFINITIONS PREPEND -D OUTPUT_VARIABLE definitions)
  list(JOIN flags " " SPARCL_PC_MPI_CFLAGS)
  list(JOIN definitions " " definitions)
  string(APPEND SPARCL_PC_MPI_CFLAGS " ${definitions}")
  list(JOIN MPI_C_LIBRARIES " " SPARCL_PC_MPI_LIBS)
  configure_file(cmake/sparcl-mpi.pc.in ${PROJECT_BINARY_DIR}/sparcl-mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/sparcl-mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
