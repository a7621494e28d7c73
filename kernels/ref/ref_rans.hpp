#pragma once

#include "kernels/rans.hpp"

namespace sparcl::kernels::ref {

RansEncodeKernel rans_encode;
RansDecodeKernel rans_decode;

}  // namespace sparcl::kernels::ref
