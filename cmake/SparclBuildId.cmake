# sparcl_build_id(TARGET): adds build_id() (src/base/build_id.hpp) to a target. The checksum is taken again with each build.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(sparcl_build_id target)
    set(output ${PROJECT_BINARY_DIR}/build_id.cpp)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.[ch]pp ${PROJECT_SOURCE_DIR}/src/net/*.[ch]pp
         ${PROJECT_SOURCE_DIR}/src/transport/*.[ch]pp ${PROJECT_SOURCE_DIR}/src/api/mpi/*.[ch]pp
         ${PROJECT_SOURCE_DIR}/src/api/comm.hpp ${PROJECT_SOURCE_DIR}/include/sparcl/*.h)
    set(flags ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS} ${SPARCL_SANITIZE}
              ${SPARCL_FAILPOINTS} ${fmt_VERSION} ${spdlog_VERSION})
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DROOT=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} "-DFLAGS=${flags}" -P
              ${PROJECT_SOURCE_DIR}/cmake/SparclBuildId.cmake
      DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/SparclBuildId.cmake
      COMMENT "Taking the checksum of this build"
      VERBATIM)
    target_sources(${target} PRIVATE ${output})
    set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endfunction()
  return()
endif()

# As a script it writes the source: cmake -DOUTPUT=FILE -DROOT=TREE -DVERSION=X -DFLAGS=TEXT -P SparclBuildId.cmake
file(GLOB_RECURSE sources ${ROOT}/src/base/*.[ch]pp ${ROOT}/src/net/*.[ch]pp ${ROOT}/src/transport/*.[ch]pp ${ROOT}/src/api/mpi/*.[ch]pp
     ${ROOT}/src/api/comm.hpp ${ROOT}/include/sparcl/*.h)
list(SORT sources)
set(sums ${FLAGS})
foreach(source IN LISTS sources)
  file(SHA256 ${source} sum)
  string(APPEND sums ${sum})
endforeach()
string(SHA256 sum "${sums}")
string(SUBSTRING ${sum} 0 16 sum)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#include \"src/base/build_id.hpp\"

namespace sparcl {

const char* build_id() { return \"${VERSION}-${sum}\"; }

}  // namespace sparcl
")
