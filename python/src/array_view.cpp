#include "python/src/array_view.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "python/src/python_calls.hpp"

namespace sparcl::python {
namespace {

struct TypeRow {
  sparclDataType_t type;
  const char* name;  // NumPy's, ml_dtypes' and torch's
  unsigned bytes;
  nb::dlpack::dtype_code code;
};

using Code = nb::dlpack::dtype_code;
constexpr std::array kTypes{
    TypeRow{sparclFloat32, "float32", 4, Code::Float},
    TypeRow{sparclBfloat16, "bfloat16", 2, Code::Bfloat},
    TypeRow{sparclFloat16, "float16", 2, Code::Float},
    TypeRow{sparclFloat64, "float64", 8, Code::Float},
    TypeRow{sparclFloat8e4m3, "float8_e4m3fn", 1, Code::Float8_E4M3FN},
    TypeRow{sparclFloat8e5m2, "float8_e5m2", 1, Code::Float8_E5M2},
    TypeRow{sparclInt8, "int8", 1, Code::Int},
    TypeRow{sparclInt16, "int16", 2, Code::Int},
    TypeRow{sparclInt32, "int32", 4, Code::Int},
    TypeRow{sparclInt64, "int64", 8, Code::Int},
    TypeRow{sparclUint8, "uint8", 1, Code::UInt},
    TypeRow{sparclUint16, "uint16", 2, Code::UInt},
    TypeRow{sparclUint32, "uint32", 4, Code::UInt},
    TypeRow{sparclUint64, "uint64", 8, Code::UInt},
    TypeRow{sparclBool, "bool", 1, Code::Bool},
};

const TypeRow* find_name(std::string_view name) {
  const auto row = std::ranges::find(kTypes, name, &TypeRow::name);
  return row == kTypes.end() ? nullptr : &*row;
}

const TypeRow& row_of(sparclDataType_t type) {
  return *std::ranges::find(kTypes, type, &TypeRow::type);
}

std::string known_names() {
  std::string text;
  for (const TypeRow& row : kTypes) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

// Of a buffer, by struct's codes; sizes are the machine's, as in NumPy.
const TypeRow* find_format(std::string_view format, Py_ssize_t bytes) {
  if (!format.empty() && (format.front() == '@' || format.front() == '=' || format.front() == '<'))
    format.remove_prefix(1);
  if (format.size() != 1) return nullptr;
  Code code;
  if (std::string_view("bhilqn").find(format[0]) != std::string_view::npos)
    code = Code::Int;
  else if (std::string_view("BHILQN").find(format[0]) != std::string_view::npos)
    code = Code::UInt;
  else if (std::string_view("efd").find(format[0]) != std::string_view::npos)
    code = Code::Float;
  else if (format[0] == '?')
    code = Code::Bool;
  else
    return nullptr;
  for (const TypeRow& row : kTypes)
    if (row.code == code && row.bytes == static_cast<unsigned>(bytes)) return &row;
  return nullptr;
}

std::string python_type(nb::handle object) {
  return nb::cast<std::string>(nb::type_name(object.type()));
}

std::string text_of(const nb::object& object) {
  return nb::cast<std::string>(nb::steal(PyObject_Str(object.ptr())));
}

// The type's module begins with `package`.
bool is_of(nb::handle object, std::string_view package) {
  const nb::object module = nb::getattr(object.type(), "__module__", nb::none());
  if (!PyUnicode_Check(module.ptr())) return false;
  const char* text = PyUnicode_AsUTF8(module.ptr());
  const std::string_view name = text == nullptr ? "" : text;
  return name.starts_with(package) &&
         (name.size() == package.size() || name[package.size()] == '.');
}

}  // namespace

const char* type_name(sparclDataType_t type) { return row_of(type).name; }
std::size_t bytes_of_type(sparclDataType_t type) { return row_of(type).bytes; }

sparclDataType_t type_of_name(const std::string& name, const char* argument) {
  const std::string_view plain =
      name.starts_with("torch.") ? std::string_view(name).substr(6) : std::string_view(name);
  if (const TypeRow* row = find_name(plain)) return row->type;
  const std::string text =
      std::string(argument) + ": there is no type '" + name + "'. The types are " + known_names();
  raise(sparclInvalidArgument, nb::cast(text));
}

ArrayView::ArrayView(const nb::object& array, const char* name, Access access)
    : name_(name), access_(access), owner_(array) {
  if (PyObject_CheckBuffer(owner_.ptr()) != 0)
    take_buffer();
  else if (is_torch())
    take_torch();
  else
    take_dlpack();
  if (!is_contiguous_ && access_ != Access::kRead)
    refuse(
        "is not contiguous: its memory must be one row-major piece. Pass a contiguous array, "
        "such as x.copy() or x.contiguous(), and copy the result back");
  if (access_ == Access::kWrite && is_read_only_)
    refuse("is read-only, and the call writes it: pass a writeable array, such as x.copy()");
}

void ArrayView::refuse(const std::string& why) const {
  const std::string text = std::string(name_) + " " + why;
  raise(sparclInvalidArgument, nb::cast(text));
}

void ArrayView::count_elements() {
  count_ = 1;
  for (const std::uint64_t extent : shape_) count_ *= static_cast<std::size_t>(extent);
}

// stride_bytes: of one unit of `strides`.
void ArrayView::take_shape(nb::handle shape, nb::handle strides, std::int64_t stride_bytes) {
  shape_.clear();
  for (const nb::handle extent : shape) shape_.push_back(nb::cast<std::uint64_t>(extent));
  count_elements();
  is_contiguous_ = true;
  if (strides.is_none() || count_ == 0) return;
  std::int64_t expected = item_;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] == 1) continue;
    if (nb::cast<std::int64_t>(strides[i]) * stride_bytes != expected) is_contiguous_ = false;
    expected *= static_cast<std::int64_t>(shape_[i]);
  }
}

// Whether owner_ is a contiguous copy now. Only inputs of one call are copied.
bool ArrayView::make_contiguous(const char* module, const char* function) {
  if (is_contiguous_ || access_ != Access::kRead) return false;
  owner_ = nb::module_::import_(module).attr(function)(owner_);
  return true;
}

bool ArrayView::is_numpy() const {
  return PyObject_HasAttrString(owner_.ptr(), "__array_interface__") != 0;
}

// Bytes, memoryview, array.array, ctypes, and NumPy's own types.
void ArrayView::take_buffer() {
  if (!buffer_.take(owner_)) {
    PyErr_Clear();
    if (is_numpy()) return take_numpy();
    refuse(
        "gives no memory: pass a NumPy array, a tensor on the CPU or a GPU, or another object "
        "with DLPack or the buffer protocol, not " +
        python_type(owner_));
  }
  const Py_buffer& buffer = buffer_.get();
  const char* format = buffer.format == nullptr ? "B" : buffer.format;
  const TypeRow* row = find_format(format, buffer.itemsize);
  if (row == nullptr)
    refuse("has elements of the type '" + std::string(format) + "': the types are " +
           known_names() + ", in the byte order of this machine");
  type_ = row->type;
  item_ = buffer.itemsize;
  data_ = buffer.buf;
  is_read_only_ = buffer.readonly != 0;
  shape_.assign(buffer.shape, buffer.shape + buffer.ndim);
  count_elements();
  is_contiguous_ = PyBuffer_IsContiguous(&buffer, 'C') != 0;
  if (is_contiguous_ || access_ != Access::kRead) return;
  const nb::object copy = nb::module_::import_("numpy").attr("ascontiguousarray")(owner_);
  buffer_.release();
  owner_ = copy;
  take_buffer();
}

// Types of ml_dtypes, for which NumPy has no buffer.
void ArrayView::take_numpy() {
  const nb::object facts = owner_.attr("__array_interface__");
  const std::string name = text_of(owner_.attr("dtype"));
  const TypeRow* row = find_name(name);
  if (row == nullptr)
    refuse("has elements of the type " + name + ": the types are " + known_names());
  type_ = row->type;
  item_ = row->bytes;
  const auto [address, is_read_only] = nb::cast<std::pair<std::uintptr_t, bool>>(facts["data"]);
  data_ = reinterpret_cast<void*>(address);
  is_read_only_ = is_read_only;
  take_shape(facts["shape"], facts["strides"], 1);
  if (make_contiguous("numpy", "ascontiguousarray")) take_numpy();
}

bool ArrayView::is_torch() const {
  return PyObject_HasAttrString(owner_.ptr(), "data_ptr") != 0 &&
         PyObject_HasAttrString(owner_.ptr(), "element_size") != 0;
}

void ArrayView::take_torch() {
  if (PyObject_HasAttrString(owner_.ptr(), "_local_tensor") != 0)
    refuse(
        "is a DTensor, of which this process has a part: pass to_local(), or use "
        "sparcl.State.from_state_dict, which adds the part as a slice");
  if (nb::cast<bool>(owner_.attr("is_meta")))
    refuse("is a meta tensor, which has no memory: load its weights first");
  if (text_of(owner_.attr("layout")) != "torch.strided")
    refuse("is a sparse tensor: pass its values and indices, or to_dense()");
  if (nb::cast<bool>(owner_.attr("is_neg")()) || nb::cast<bool>(owner_.attr("is_conj")()))
    refuse("is a lazily negated or conjugated view: pass x.resolve_neg() or x.resolve_conj()");
  const std::string name = text_of(owner_.attr("dtype"));
  const TypeRow* row =
      find_name(std::string_view(name).substr(std::min<std::size_t>(6, name.size())));
  if (row == nullptr)
    refuse("has elements of the type " + name + ": the types are " + known_names());
  const std::string device = nb::cast<std::string>(owner_.attr("device").attr("type"));
  if (device != "cpu" && device != "cuda")
    refuse("is on the device '" + device + "': tensors of the CPU and of CUDA can be used");
  is_on_device_ = device == "cuda";
  type_ = row->type;
  item_ = row->bytes;
  data_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(owner_.attr("data_ptr")()));
  take_shape(owner_.attr("shape"), owner_.attr("stride")(), item_);
  if (is_contiguous_ || access_ != Access::kRead) return;
  owner_ = owner_.attr("detach")().attr("contiguous")();
  take_torch();
}

void ArrayView::take_dlpack() {
  if (PyObject_HasAttrString(owner_.ptr(), "__dlpack__") == 0) {
    const std::string text = std::string(name_) + " is a " + python_type(owner_) +
                             ": pass a NumPy array, a tensor, or another object with DLPack or the "
                             "buffer protocol";
    raise_type_error(nb::cast(text));
  }
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(owner_, array)) refuse("gives no memory by DLPack: a " + python_type(owner_));
  const nb::dlpack::dtype type = array.dtype();
  const auto row = std::ranges::find_if(kTypes, [&](const TypeRow& each) {
    return static_cast<std::uint8_t>(each.code) == type.code && each.bytes * 8 == type.bits;
  });
  if (row == kTypes.end() || type.lanes != 1)
    refuse("has elements of a type that sparcl does not have: the types are " + known_names());
  const int device = array.device_type();
  if (device != nb::device::cpu::value && device != nb::device::cuda::value &&
      device != nb::device::cuda_host::value && device != nb::device::cuda_managed::value)
    refuse("is on a device that sparcl cannot use: arrays of the CPU and of CUDA can be used");
  type_ = row->type;
  item_ = row->bytes;
  is_on_device_ = device == nb::device::cuda::value;
  data_ = const_cast<void*>(array.data());
  is_read_only_ = is_of(owner_, "jax") || is_of(owner_, "jaxlib");  // DLPack 0 cannot say so
  shape_.clear();
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    shape_.insert(shape_.begin(), array.shape(i));
    if (array.shape(i) > 1 && array.stride(i) != expected) is_contiguous_ = false;
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  count_elements();
  if (count_ == 0) is_contiguous_ = true;
  if (!is_contiguous_ && access_ == Access::kRead && is_on_device_)
    refuse("is not contiguous, and in device memory: pass a contiguous copy of it");
  if (!is_contiguous_ && access_ == Access::kRead) {
    const nb::module_ numpy = nb::module_::import_("numpy");
    owner_ = numpy.attr("ascontiguousarray")(numpy.attr("from_dlpack")(owner_));
    is_contiguous_ = true;
    take_buffer();
    return;
  }
  owner_ = nb::make_tuple(owner_, nb::cast(array));  // the capsule lives as long as the view
}

}  // namespace sparcl::python
