#pragma once
// Arrays of NumPy, torch, JAX, CuPy and of whatever has a buffer or DLPack, without a copy.

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::python {

namespace nb = nanobind;

enum class Access {
  kRead,      // an input of one call: what is not contiguous is copied by stride
  kReadHere,  // an input that must stay where it is: what is not contiguous is refused
  kWrite,     // an output: what is read-only or not contiguous is refused
};

// A buffer of Python, given back at the end.
class HeldBuffer {
 public:
  HeldBuffer() = default;
  HeldBuffer(HeldBuffer&& other) noexcept : buffer_(std::exchange(other.buffer_, Py_buffer{})) {}
  HeldBuffer& operator=(HeldBuffer&&) = delete;
  ~HeldBuffer() { release(); }
  // False: a Python exception is set.
  bool take(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_FULL_RO) == 0) return true;
    buffer_.obj = nullptr;
    return false;
  }
  void release() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
    buffer_.obj = nullptr;
  }
  const Py_buffer& get() const { return buffer_; }

 private:
  Py_buffer buffer_{};
};

// Contiguous memory of an array, row-major. The array lives as long as the view.
class ArrayView {
 public:
  // name: of the argument, for errors.
  ArrayView(const nb::object& array, const char* name, Access access);
  ArrayView(ArrayView&&) noexcept = default;
  ArrayView& operator=(ArrayView&&) = delete;

  void* data() const { return data_; }
  std::size_t count() const { return count_; }
  sparclDataType_t type() const { return type_; }
  const std::vector<std::uint64_t>& shape() const { return shape_; }
  bool is_on_device() const { return is_on_device_; }

 private:
  void take_buffer();
  bool is_torch() const;
  void take_torch();
  bool is_numpy() const;
  void take_numpy();
  void take_dlpack();
  void take_shape(nb::handle shape, nb::handle strides, std::int64_t stride_bytes);
  bool make_contiguous(const char* module, const char* function);
  void count_elements();
  [[noreturn]] void refuse(const std::string& why) const;

  const char* name_;
  Access access_;
  nb::object owner_;
  HeldBuffer buffer_;
  void* data_ = nullptr;
  std::size_t count_ = 0;
  std::int64_t item_ = 0;  // bytes of an element
  sparclDataType_t type_ = sparclFloat32;
  std::vector<std::uint64_t> shape_;
  bool is_on_device_ = false, is_contiguous_ = true, is_read_only_ = false;
};

// "bfloat16" and so on. nullptr where there is none.
const char* type_name(sparclDataType_t type);
// By NumPy's and ml_dtypes' names; raises for others.
sparclDataType_t type_of_name(const std::string& name, const char* argument);
std::size_t bytes_of_type(sparclDataType_t type);

}  // namespace sparcl::python
