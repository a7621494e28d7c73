#pragma once
// Updates of states with tensors in device memory, staged through host memory: the call works on
// their mirror.

#include "src/api/state_handle.hpp"

namespace sparcl::api {

// Copies the tensors to the mirror. If the mirror is ahead, copies it to the tensors instead. (A
// root would send tensors that lack the last update: check_complete() refuses its call before.)
Status read_mirror(sparclState& state, sparclStream_t stream);
// After an update that was made: copies the mirror to the tensors. An error says what they lack.
Status write_mirror(sparclState& state, bool is_root, sparclStream_t stream);

}  // namespace sparcl::api
