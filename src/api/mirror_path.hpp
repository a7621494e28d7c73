#pragma once
// Updates of states with tensors in device memory, staged through host memory: the call works on
// their mirror.

#include "src/api/state_handle.hpp"

namespace sparcl::api {

// The mirror becomes what the tensors hold; those that could not be given what the last update
// brought get it now. (A root's would be sent as they are, and, should that fail, be a base that
// they are not: check_complete().)
Status read_mirror(sparclState& state, sparclStream_t stream);
// After an update that was made: the tensors become what the mirror holds. An error says what they
// lack.
Status write_mirror(sparclState& state, bool is_root, sparclStream_t stream);

}  // namespace sparcl::api
