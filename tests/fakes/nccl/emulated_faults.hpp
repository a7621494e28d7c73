#pragma once
// What the stand-ins for kernels do wrong, and what they have done.

namespace sparcl::test {

// From now on the device refuses the first block of each batch that it decodes, or not.
void refuse_blocks(bool refuses);
// So far, also those that were refused.
int blocks_decoded();

}  // namespace sparcl::test
