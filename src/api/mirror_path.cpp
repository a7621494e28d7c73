#include "src/api/mirror_path.hpp"

#include <new>

#include "src/base/stage_range.hpp"

namespace sparcl::api {
namespace {

Status write_what_differs(model::DeviceTensors& mirror, sparclStream_t stream) {
  try {
    SPARCL_RETURN_IF_ERROR(mirror.note_differences(stream));
    SPARCL_RETURN_IF_ERROR(mirror.write(stream));
    mirror.remember(stream);
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory to bring it there");
  }
  return {};
}

}  // namespace

Status read_mirror(sparclState& state, sparclStream_t stream) {
  if (state.mirror == nullptr) {
    SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<model::DeviceTensors> made,
                            state.make_mirror(kernels::cpu_kernels()));
    state.mirror = std::move(made);
  }
  const StageRange range("copy from the device");
  if (!state.is_mirror_ahead) return state.mirror->read(stream);
  state.mirror->note_all();  // the program may have written anything there since
  SPARCL_RETURN_IF_ERROR(state.mirror->write(stream));
  state.is_mirror_ahead = false;
  state.mirror->remember(stream);
  return {};
}

Status write_mirror(sparclState& state, bool is_root, sparclStream_t stream) {
  const StageRange range("copy to the device");
  state.mirror->forget();
  const Status status = write_what_differs(*state.mirror, stream);
  if (status.ok()) return status;
  state.is_mirror_ahead = !is_root || state.mirror->is_torn();
  if (is_root) return status.with_prefix("the update was made, but not adopted: ");
  return status.with_prefix(
      "the update was made, and this rank's next one gives the tensors what they lack of it: ");
}

}  // namespace sparcl::api
