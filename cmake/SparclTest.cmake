# How tests are added. Two tiers: what has the label "long" belongs to `scripts/test --long`, all else is quick.
include(GoogleTest)

# Every source still includes what it uses; builds with sanitizers (CMakePresets.json) have no precompiled headers, and find where one
# does not. This is the program that owns them.
find_package(GTest QUIET)
if(GTest_FOUND)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty_test.cpp CONTENT "int main() {}\n")
  add_executable(sparcl_test_headers ${PROJECT_BINARY_DIR}/empty_test.cpp)
  target_link_libraries(sparcl_test_headers PRIVATE fmt::fmt nlohmann_json::nlohmann_json GTest::gmock GTest::gtest_main)
  sparcl_warnings(sparcl_test_headers)
  sparcl_quick_to_compile(sparcl_test_headers)
  target_precompile_headers(sparcl_test_headers PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <cstdlib> <cstring> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional>
    <random> <set> <span> <string> <thread> <vector> <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
endif()

# Properties of tests with several processes. They mostly wait, so that one of them at a time fits beside another test; they begin
# first, as together they take longest. (A test that needs two processors would be passed by all others, and then be alone.)
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
if(cores LESS 4)
  set(SPARCL_MANY_RANKS RESOURCE_LOCK ranks COST 9)
else()
  set(SPARCL_MANY_RANKS PROCESSORS 2 COST 9)
endif()

# sparcl_test_program(NAME SOURCE... [COMPUTES] LINK TARGET...): a GoogleTest program that sees the tree. COMPUTES: its own loops take
# most of its time.
function(sparcl_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 TEST "COMPUTES" "" "LINK")
  add_executable(${name} ${TEST_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ${TEST_LINK} sparcl_test_support fmt::fmt GTest::gmock GTest::gtest_main)
  sparcl_quick_to_compile(${name})
  if(TEST_COMPUTES AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(TARGET sparcl_test_headers)
    target_precompile_headers(${name} REUSE_FROM sparcl_test_headers)
    sparcl_forgive_headers(${name})
  endif()
  sparcl_warnings(${name})
endfunction()

# sparcl_long_program(NAME): a program of the long tier alone, built by the target long_tests and not by default.
function(sparcl_long_program name)
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  if(NOT TARGET long_tests)
    add_custom_target(long_tests)
  endif()
  add_dependencies(long_tests ${name})
endfunction()

# sparcl_room_test(FOLDER [COMPUTES] LINK TARGET...): the tests of one room, one program, from tests/FOLDER/*_test.cpp.
# Each test runs by itself in the quick tier; in the long tier the program runs once more, whole, with SPARCL_TEST_LONG=1, which
# tests read by tests/support/tier.hpp to take more seeds and bigger sizes.
function(sparcl_room_test folder)
  cmake_parse_arguments(PARSE_ARGV 1 TEST "COMPUTES" "" "LINK")
  set(computes)
  if(TEST_COMPUTES)
    set(computes COMPUTES)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  sparcl_test_program(test_${folder} ${sources} ${computes} LINK ${TEST_LINK})
  gtest_discover_tests(test_${folder} TEST_PREFIX "${folder}." DISCOVERY_TIMEOUT 120 NO_PRETTY_VALUES PROPERTIES TIMEOUT 300)
  add_test(NAME long.${folder} COMMAND test_${folder})
  set_tests_properties(long.${folder} PROPERTIES LABELS long TIMEOUT 3600 ENVIRONMENT SPARCL_TEST_LONG=1)
endfunction()

# What mpirun's children need on one small machine: ranks share cores, containers run as root, nothing leaves the machine.
set(SPARCL_MPI_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo HYDRA_LAUNCHER=fork)

# Tests over MPICH end without MPI_Finalize (tests/support/mpi_end.hpp), and its mpirun would kill the others when the first does.
set(SPARCL_MPI_PREFLAGS)
if(MPI_C_LIBRARIES MATCHES "mpich" AND MPIEXEC_EXECUTABLE MATCHES "mpi(exec|run)[^/]*$")
  set(SPARCL_MPI_PREFLAGS -disable-auto-cleanup)
endif()

# sparcl_mpi_test(NAME RANKS COMMAND...): a test that mpirun starts with RANKS ranks.
function(sparcl_mpi_test name ranks)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${SPARCL_MPI_PREFLAGS} ${MPIEXEC_PREFLAGS} ${ARGN})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${SPARCL_MPI_ENVIRONMENT}" TIMEOUT 300 ${SPARCL_MANY_RANKS})
endfunction()
