#include "src/model/files/delta_applier.hpp"

#include <filesystem>
#include <vector>

#include "src/model/checkpoint_writer.hpp"
#include "src/model/files/held_state.hpp"
#include "src/model/model_hash.hpp"

namespace sparcl::model {

Result<ApplyReport> apply_delta(const std::string& base_path, const Delta& delta,
                                const std::string& out_path, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(HeldState state, HeldState::open(base_path, watch));
  ApplyReport report;
  report.base_hash = state.hash();
  SPARCL_RETURN_IF_ERROR(state.apply(delta, watch));

  const StateView target = state.view();
  std::error_code ignored;
  const bool in_place = std::filesystem::equivalent(base_path, out_path, ignored);
  const Layout* replaced = in_place ? &state.base().layout() : nullptr;
  SPARCL_RETURN_IF_ERROR(write_checkpoint(out_path, target.layout, target.tensors, replaced,
                                          target.side_files, watch));
  report.elements = make_block_map(target.schema).element_count();
  report.changed = state.changed();
  report.bytes = state.byte_count();
  report.target_hash = state.hash();
  report.exact = state.exact();
  return report;
}

}  // namespace sparcl::model
