# One static, position-independent target a room, linked PRIVATE: sparcl_<name>.
#   sparcl_room(name FOLDER... LINK TARGET...)
# A folder's own sources are taken, and those of folders below it that are no room of their own.
# The standard's headers that most sources take, compiled once: 0.6 to 0.9 s a source. As with the tests
# (SparclTest.cmake) every source still includes what it uses.
function(sparcl_share_headers target)
  if(NOT TARGET sparcl_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty_headers.cpp CONTENT "")
    add_library(sparcl_headers OBJECT ${PROJECT_BINARY_DIR}/empty_headers.cpp)
    target_link_libraries(sparcl_headers PRIVATE fmt::fmt)
    sparcl_warnings(sparcl_headers)
    target_precompile_headers(sparcl_headers PRIVATE
      <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <cstring> <deque> <functional> <map> <memory> <mutex> <optional>
      <span> <string> <string_view> <thread> <utility> <vector> <fmt/format.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM sparcl_headers)
  sparcl_forgive_headers(${target})
endfunction()

# g++ 12 forgets that what was precompiled is a system header's, and warns of what it inlines.
function(sparcl_forgive_headers target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
                                           -Wno-stringop-overread>)
endfunction()

function(sparcl_room name)
  cmake_parse_arguments(PARSE_ARGV 1 ROOM "" "" "LINK")
  set(sources)
  foreach(folder IN LISTS ROOM_UNPARSED_ARGUMENTS)
    if(folder MATCHES "^(src/(transport|api)|kernels)")
      file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
    else()
      file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
    endif()
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)  # a room that holds headers only, so far
    set(sources ${PROJECT_BINARY_DIR}/empty_${name}.cpp)
    file(CONFIGURE OUTPUT ${sources} CONTENT "")
  endif()
  add_library(sparcl_${name} STATIC ${sources})
  target_include_directories(sparcl_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  sparcl_warnings(sparcl_${name})
  if("fmt::fmt" IN_LIST ROOM_LINK)
    sparcl_share_headers(sparcl_${name})
  endif()
  foreach(library IN LISTS ROOM_LINK)
    if(TARGET sparcl_${library})
      target_link_libraries(sparcl_${name} PRIVATE sparcl_${library})
    else()
      target_link_libraries(sparcl_${name} PRIVATE ${library})
    endif()
  endforeach()
endfunction()

# For code that does not compute: tests, which are compiled once and run for seconds, and programs that parse options and print. g++
# needs half the time of -O3 for it, and less than with -O0, where nothing is inlined.
function(sparcl_quick_to_compile target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>)
endfunction()

# sparcl_command_program(TARGET [COMPUTES FILE...]): an executable that parses options and prints. The parser's and JSON's headers are
# compiled once. COMPUTES: sources whose loops take its time.
function(sparcl_command_program target)
  cmake_parse_arguments(PARSE_ARGV 1 COMMAND "" "" "COMPUTES")
  if(NOT TARGET sparcl_command_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty_command.cpp CONTENT "int main() {}\n")
    add_executable(sparcl_command_headers ${PROJECT_BINARY_DIR}/empty_command.cpp)
    target_link_libraries(sparcl_command_headers PRIVATE fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json)
    sparcl_warnings(sparcl_command_headers)
    sparcl_quick_to_compile(sparcl_command_headers)
    target_precompile_headers(sparcl_command_headers PRIVATE
      <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <functional> <map> <memory> <optional> <span> <string> <thread> <utility>
      <vector> <fmt/format.h> <CLI/CLI.hpp> <nlohmann/json.hpp>)
  endif()
  target_link_libraries(${target} PRIVATE fmt::fmt)  # its definitions are those of the precompiled headers
  sparcl_quick_to_compile(${target})
  target_precompile_headers(${target} REUSE_FROM sparcl_command_headers)
  sparcl_forgive_headers(${target})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set_source_files_properties(${COMMAND_COMPUTES} PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

function(sparcl_warnings target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow>
                                           $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
  if(CMAKE_UNITY_BUILD)  # a source's constants are no global ones, and g++ takes sources that are included for headers
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-shadow -Wshadow=local -Wno-subobject-linkage>
                                             $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-shadow>)
  endif()
  if(SPARCL_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
  endif()
endfunction()
