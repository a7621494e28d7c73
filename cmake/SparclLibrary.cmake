# The two libraries that users link: libsparcl (no MPI in it) and libsparcl_mpi, made of the layers.
set(SPARCL_LAYERS sparcl_base sparcl_kernels sparcl_transport sparcl_codec sparcl_model sparcl_collectives)

add_library(sparcl SHARED $<TARGET_OBJECTS:sparcl_api>)
add_library(sparcl::sparcl ALIAS sparcl)
target_include_directories(sparcl PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(sparcl INTERFACE cxx_std_20)
target_link_libraries(sparcl PRIVATE ${SPARCL_LAYERS} fmt::fmt spdlog::spdlog hwy::hwy Threads::Threads)
set_target_properties(sparcl PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)

if(SPARCL_WITH_MPI)
  add_library(sparcl_mpi SHARED $<TARGET_OBJECTS:sparcl_api_mpi>)
  add_library(sparcl::mpi ALIAS sparcl_mpi)
  target_link_libraries(sparcl_mpi PUBLIC sparcl MPI::MPI_C PRIVATE sparcl_transport_mpi sparcl_base fmt::fmt)
  set_target_properties(sparcl_mpi PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                              EXPORT_NAME mpi LINKER_LANGUAGE CXX)
endif()
