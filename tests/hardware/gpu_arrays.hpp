#pragma once
// Device memory for tests, and a reason to skip where there is no GPU.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace sparcl::test {

// Empty, or why nothing can run on a GPU here.
inline std::string why_no_gpu() {
  int count = 0, driver = 0, runtime = 0;  // versions: 1000 * major + 10 * minor
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count == 0 ? "no GPU: this machine has none" : "";
  if (error == cudaErrorNoDevice)
    return "no GPU: the driver finds none (CUDA_VISIBLE_DEVICES or a container may hide one)";
  if (error == cudaErrorInsufficientDriver) {  // also where there is no driver
    const auto text = [](int version) {
      return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    };
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0) return "no GPU: there is no NVIDIA driver (libcuda.so.1 cannot be loaded)";
    return "no GPU that can be used: the driver knows CUDA " + text(driver) +
           ", this build needs " + text(runtime);
  }
  return std::string("no GPU that can be used: ") + cudaGetErrorString(error);
}

inline void must(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

// Filled with 0xa5 where nothing is given: what a kernel does not write is seen.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    must(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T) + 64));
    must(cudaMemset(data_, 0xa5, count * sizeof(T) + 64));
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
    must(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { (void)cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::vector<T> read(std::size_t count) const {
    std::vector<T> values(count);
    must(cudaMemcpy(values.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  std::vector<T> read() const { return read(count_); }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

}  // namespace sparcl::test
