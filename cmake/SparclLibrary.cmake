# The two libraries that users link, made of the rooms: libsparcl (no MPI and no UCX in it) and libsparcl_mpi; and the plug-in for UCX.
set(SPARCL_ROOMS sparcl_base sparcl_kernels sparcl_gpu sparcl_trust sparcl_net sparcl_transport sparcl_codec sparcl_model sparcl_device sparcl_comm
    sparcl_sparse sparcl_aggregate sparcl_collectives sparcl_replication sparcl_elastic sparcl_store)

function(sparcl_show_interface target)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  # As needed: what only the programs use stays out.
  target_link_options(${target} PRIVATE LINKER:--as-needed LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
  if(NOT SPARCL_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()

# It stays when it is closed by dlclose(): threads that called it have something of it to end.
function(sparcl_shared_library target)
  target_link_options(${target} PRIVATE LINKER:-z,nodelete)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  sparcl_show_interface(${target})
endfunction()

add_library(sparcl SHARED $<TARGET_OBJECTS:sparcl_api>)
add_library(sparcl::sparcl ALIAS sparcl)
target_include_directories(sparcl PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# For sparcl.hpp. CMake overlooks a feature of a language that a project has not enabled: projects of C alone stay as they are.
target_compile_features(sparcl INTERFACE cxx_std_20)
target_link_libraries(sparcl PRIVATE ${SPARCL_ROOMS} fmt::fmt spdlog::spdlog hwy::hwy Threads::Threads)
if(SPARCL_WITH_CUDA)
  target_link_libraries(sparcl PRIVATE sparcl_kernels_cuda CUDA::cudart_static)
endif()
sparcl_shared_library(sparcl)

# UCX installs signal handlers when it is loaded: libsparcl loads it by this plug-in, when that transport is chosen.
if(SPARCL_WITH_UCX)
  add_library(sparcl_ucx_plugin MODULE $<TARGET_OBJECTS:sparcl_transport_ucx>)
  target_link_libraries(sparcl_ucx_plugin PRIVATE sparcl_transport sparcl_base fmt::fmt sparcl_ucx)
  sparcl_show_interface(sparcl_ucx_plugin)
  set_target_properties(sparcl_ucx_plugin PROPERTIES OUTPUT_NAME sparcl_ucx LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  add_dependencies(sparcl sparcl_ucx_plugin)
  add_dependencies(sparcl_api sparcl_ucx_plugin)  # for programs that link the rooms
endif()

if(SPARCL_KOKKOS)
  include(SparclKokkos)
  if(TARGET sparcl::kokkos)
    set(SPARCL_WITH_KOKKOS ON)
    target_include_directories(sparcl::kokkos INTERFACE ${PROJECT_SOURCE_DIR}/kernels/kokkos/include)
  else()
    message(STATUS "sparcl: no Kokkos found: its tests and its example are left out (Debian: apt-get install libtrilinos-kokkos-dev)")
  endif()
endif()
message(STATUS "sparcl: Kokkos: ${SPARCL_WITH_KOKKOS}")

if(SPARCL_WITH_MPI)
  add_library(sparcl_mpi SHARED $<TARGET_OBJECTS:sparcl_api_mpi>)
  add_library(sparcl::mpi ALIAS sparcl_mpi)
  target_link_libraries(sparcl_mpi PUBLIC sparcl MPI::MPI_C PRIVATE sparcl_transport_mpi sparcl_base fmt::fmt MPI::MPI_CXX ${CMAKE_DL_LIBS})
  target_compile_definitions(sparcl_mpi INTERFACE ${SPARCL_MPI_DEFINITIONS})
  target_compile_definitions(sparcl_transport_mpi PRIVATE ${SPARCL_MPI_DEFINITIONS})
  target_compile_definitions(sparcl_api_mpi PRIVATE ${SPARCL_MPI_DEFINITIONS} SPARCL_MPI_NAME="${SPARCL_MPI_NAME}")
  set_target_properties(sparcl_mpi PROPERTIES EXPORT_NAME mpi)
  sparcl_shared_library(sparcl_mpi)
endif()
