#pragma once
// sparcl for C++20: the C interface with ownership, spans and exceptions, and nothing else. Errors
// are thrown as sparcl::Error.

#if __cplusplus < 202002L
#error "sparcl.hpp needs C++20: compile with -std=c++20 (CMake: link sparcl::sparcl)"
#endif

#include "sparcl/cpp_basics.hpp"
#include "sparcl/cpp_communicator.hpp"
#include "sparcl/cpp_elastic.hpp"
#include "sparcl/cpp_objects.hpp"
#include "sparcl/cpp_replicas.hpp"
#include "sparcl/cpp_store.hpp"
#include "sparcl/file.hpp"
#include "sparcl/sparcl.h"
