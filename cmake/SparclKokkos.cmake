# sparcl::kokkos, where there is a Kokkos: sparcl for users of sparcl_kokkos.hpp. The project's own Kokkos::kokkos is taken, else one is
# looked for. The library itself needs none: these headers hold all of it. Part of the installed package, too.
if(NOT TARGET Kokkos::kokkos)
  find_package(Kokkos QUIET CONFIG)
endif()
if(TARGET trilinos_kokkoscore)  # Debian's, of Trilinos 13: its Kokkos::kokkos names a folder that does not exist
  get_target_property(SPARCL_KOKKOS_FOLDER Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
  find_path(SPARCL_KOKKOS_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos)
  mark_as_advanced(SPARCL_KOKKOS_INCLUDE_DIR)
  if(SPARCL_KOKKOS_INCLUDE_DIR AND NOT EXISTS "${SPARCL_KOKKOS_FOLDER}")
    set_target_properties(Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${SPARCL_KOKKOS_INCLUDE_DIR})
  endif()
endif()
if(TARGET Kokkos::kokkos AND NOT TARGET sparcl::kokkos)
  add_library(sparcl::kokkos INTERFACE IMPORTED GLOBAL)
  target_link_libraries(sparcl::kokkos INTERFACE sparcl::sparcl Kokkos::kokkos)
endif()
