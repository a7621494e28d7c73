# SPARCL_SANITIZE: "address,undefined" or "thread"; everything is built with it, the tests included.
if(SPARCL_SANITIZE)
  # vptr is left out: libsparcl_mpi hands its transport to libsparcl, and hidden type information differs by address.
  add_compile_options(-fsanitize=${SPARCL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # GCC 12 takes parts of <regex> for uninitialised where it is instrumented.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(SPARCL_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr>)
  endif()
  add_link_options(-fsanitize=${SPARCL_SANITIZE})
endif()

# SPARCL_FUZZ: everything is instrumented for libFuzzer; the targets in tests/fuzz link it.
if(SPARCL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SPARCL_FUZZ needs clang with libFuzzer: apt-get install clang libclang-rt-14-dev, then cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
