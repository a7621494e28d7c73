# SPARCL_SANITIZE: "address,undefined" or "thread"; everything is built with it, the tests included.
if(SPARCL_SANITIZE)
  # vptr is left out: libsparcl_mpi hands its transport to libsparcl, and hidden type information differs by address.
  add_compile_options(-fsanitize=${SPARCL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(SPARCL_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr>)
  endif()
  add_link_options(-fsanitize=${SPARCL_SANITIZE})
endif()
