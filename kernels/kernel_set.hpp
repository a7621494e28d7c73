#pragma once
#include "src/base/memory_space.hpp"
namespace sparcl::kernels {
struct KernelSet {};
}  // namespace sparcl::kernels
