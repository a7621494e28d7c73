// The module sparcl._core: calls of the C interface, one by one. The package sparcl is made of
// them.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "python/src/python_handles.hpp"

namespace {

// Of the elements of an array.
const char* name_of_type(const nanobind::object& array, const char* argument) {
  using namespace sparcl::python;
  return type_name(ArrayView(array, argument, Access::kRead).type());
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "Calls of the C interface; use the package sparcl.";
  nanobind::set_leak_warnings(false);  // threads may hold objects when the interpreter ends
  int version = 0;
  sparclGetVersion(&version);
  module.attr("VERSION") = std::to_string(version / 10000) + "." +
                           std::to_string(version / 100 % 100) + "." +
                           std::to_string(version % 100);
  module.def("end_threads", &sparcl::python::end_threads);
  sparcl::python::add_communicators(module);
  sparcl::python::add_states(module);
  sparcl::python::add_collectives(module);
  sparcl::python::add_stores(module);
  sparcl::python::add_replication(module);
  sparcl::python::add_files(module);
  sparcl::python::add_aggregation(module);
  sparcl::python::add_elastic(module);
  module.def("type_bytes", [](const std::string& name) {
    return sparcl::python::bytes_of_type(sparcl::python::type_of_name(name, "dtype"));
  });
  module.def("type_name", &name_of_type, nanobind::arg().none(), nanobind::arg());
}
