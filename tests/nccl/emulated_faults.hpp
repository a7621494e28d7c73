#pragma once
// What the stand-ins for kernels do wrong.

namespace sparcl::test {

// From now on the device refuses the first block of each batch that it decodes, or not.
void refuse_blocks(bool refuses);

}  // namespace sparcl::test
