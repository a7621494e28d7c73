// Models as named tensors, and options of updates.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

using Shape = std::vector<std::uint64_t>;

State* make_state() {
  sparclState_t state = nullptr;
  check(sparclStateCreate(&state));
  return new State(state, "state");
}

std::string argument_of(const std::string& name) { return "tensor '" + name + "'"; }

// is_written: by subscribers and broadcasts; the others only read it.
void add_tensor(State& state, const std::string& name, const nb::object& array, bool is_written) {
  const std::string argument = argument_of(name);
  ArrayView view(array, argument.c_str(), is_written ? Access::kWrite : Access::kReadHere);
  check(sparclStateAdd(state.get(), c_text(name), view.data(), view.type(),
                       static_cast<int>(view.shape().size()), view.shape().data()));
  state.keep(std::move(view));
}

// array: the slice, whose shape is its extent.
void add_slice(State& state, const std::string& name, const nb::object& array, const Shape& shape,
               const Shape& begin, bool is_written) {
  const std::string argument = argument_of(name);
  ArrayView view(array, argument.c_str(), is_written ? Access::kWrite : Access::kReadHere);
  if (shape.size() != view.shape().size() || begin.size() != view.shape().size()) {
    const std::string text =
        argument + ": shape, begin and the slice need the same number of dimensions";
    raise(sparclInvalidArgument, nb::cast(text));
  }
  check(sparclStateAddSlice(state.get(), c_text(name), view.data(), view.type(),
                            static_cast<int>(shape.size()), shape.data(), begin.data(),
                            view.shape().data()));
  state.keep(std::move(view));
}

void add_master(State& state, const std::string& name, const nb::object& master,
                const std::string& type) {
  const std::string argument = "master of " + argument_of(name);
  ArrayView view(master, argument.c_str(), Access::kReadHere);
  if (view.type() != sparclFloat32) {
    const std::string text =
        argument + " has the type " + type_name(view.type()) + ": a master is float32";
    raise(sparclInvalidArgument, nb::cast(text));
  }
  check(sparclStateAddMaster(state.get(), c_text(name), static_cast<const float*>(view.data()),
                             type_of_name(type, "dtype"), static_cast<int>(view.shape().size()),
                             view.shape().data()));
  state.keep(std::move(view));
}

void mark_indices(State& state, const std::string& name, const nb::object& indices) {
  const ArrayView view(indices, "indices", Access::kRead);
  if (view.type() != sparclUint64 && view.type() != sparclInt64)
    raise(sparclInvalidArgument, nb::str("indices: element numbers are uint64 or int64"));
  run_released([&, handle = state.get(), places = static_cast<const std::uint64_t*>(view.data())] {
    return sparclStateMarkIndices(handle, c_text(name), places, view.count());
  });
}

// bitmap: uint64 words, with room for a bit a block of the tensor.
void mark_blocks(State& state, const std::string& name, const nb::object& bitmap,
                 std::size_t block) {
  const ArrayView view(bitmap, "bitmap", Access::kRead);
  if (view.type() != sparclUint64)
    raise(sparclInvalidArgument, nb::str("bitmap: its words are uint64"));
  run_released([&, handle = state.get(), words = static_cast<const std::uint64_t*>(view.data())] {
    return sparclStateMarkBlocks(handle, c_text(name), words, block);
  });
}

nb::bytes hash_of(const State& state) {
  std::array<std::uint8_t, 16> hash;
  run_released([&, handle = state.get()] { return sparclStateHash(handle, hash.data()); });
  return nb::bytes(hash.data(), hash.size());
}

std::uint64_t version_of(const State& state) {
  std::uint64_t version = 0;
  check(sparclStateVersion(state.get(), &version));
  return version;
}

void init_options(sparclUpdateOptions_t* made, int select, double threshold, std::uint64_t count,
                  std::uint64_t bytes, const std::string& grid, int values, int rounding,
                  std::uint64_t seed, int adopt, int verify) {
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = static_cast<sparclSelect_t>(select);
  options.threshold = threshold;
  options.count = count;
  options.bytes = bytes;
  options.grid = type_of_name(grid, "grid");
  options.values = static_cast<sparclValues_t>(values);
  options.rounding = static_cast<sparclRounding_t>(rounding);
  options.seed = seed;
  options.adopt = static_cast<sparclToggle_t>(adopt);
  options.verify = static_cast<sparclVerify_t>(verify);
  new (made) sparclUpdateOptions_t(options);
}

// The bytes of an array while a `with` lasts.
class Memory {
 public:
  Memory(const nb::object& array, const std::string& name, bool is_written)
      : view_(array, name.c_str(), is_written ? Access::kWrite : Access::kRead),
        is_written_(is_written) {}
  nb::object enter() {  // a memoryview
    const auto bytes = static_cast<Py_ssize_t>(view_.count() * bytes_of_type(view_.type()));
    if (view_.is_on_device())
      raise(sparclUnsupported, nb::str("the array is in device memory: copy it to the host first"));
    char none = 0;
    char* const data = bytes == 0 ? &none : static_cast<char*>(view_.data());
    shown_ =
        nb::steal(PyMemoryView_FromMemory(data, bytes, is_written_ ? PyBUF_WRITE : PyBUF_READ));
    if (!shown_.is_valid()) throw nb::python_error();
    return shown_;
  }
  void exit(const nb::args&) { shown_.attr("release")(); }

 private:
  ArrayView view_;
  bool is_written_;
  nb::object shown_;
};

}  // namespace

void add_states(nb::module_& module) {
  nb::class_<sparclUpdateOptions_t>(module, "UpdateOptions").def("__init__", &init_options);
  nb::class_<State>(module, "State")
      .def("close", &State::close)
      .def_prop_ro("closed", &State::is_closed)
      .def("add", &add_tensor, nb::arg(), nb::arg().none(), nb::arg())
      .def("add_slice", &add_slice, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg())
      .def("add_master", &add_master, nb::arg(), nb::arg().none(), nb::arg())
      .def("mark_indices", &mark_indices, nb::arg(), nb::arg().none())
      .def("mark_blocks", &mark_blocks, nb::arg(), nb::arg().none(), nb::arg())
      .def("set_trainable",
           [](const State& state, const std::string& name, bool trainable) {
             check(sparclStateSetTrainable(state.get(), c_text(name), trainable ? 1 : 0));
           })
      .def("set_priority",
           [](const State& state, const std::string& name, int priority) {
             check(sparclStateSetPriority(state.get(), c_text(name), priority));
           })
      .def("version", &version_of)
      .def("hash", &hash_of);
  nb::class_<Memory>(module, "Memory")
      .def(nb::init<const nb::object&, const std::string&, bool>(), nb::arg().none(), nb::arg(),
           nb::arg())
      .def("__enter__", &Memory::enter, nb::sig("def __enter__(self) -> memoryview"))
      .def("__exit__", &Memory::exit);
  module.def("state_create", &make_state);
}

}  // namespace sparcl::python
