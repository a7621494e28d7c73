
#include "collectives/table/collective_table.hpp"
#include "src/api/device_path.hpp"
#include "src/api/replication_handles.hpp"
#include "src/base/settings.hpp"
#include "src/model/text.hpp"

namespace sparcl::api {

Result<std::unique_ptr<AttachedState>> AttachedState::attach(const Held<sparclState>& state,
                                                             Use use) {
  SPARCL_RETURN_IF_ERROR(state.status());
  SPARCL_RETURN_IF_ERROR(state->check_idle());
  if (state->is_attached)
    return Status(Code::kInvalidUsage,
                  "this state has a publisher, a subscriber or a store already");
  SPARCL_RETURN_IF_ERROR(state->check_still());
  if (use == Use::kRead) SPARCL_RETURN_IF_ERROR(state->check_complete());
  SPARCL_ASSIGN_OR_RETURN(const std::string bodies, setting_choice("KERNELS"));
  SPARCL_ASSIGN_OR_RETURN(const std::string verify, setting_choice("VERIFY"));
  SPARCL_ASSIGN_OR_RETURN(const unsigned threads, threads_setting());
  const Result<std::string> device_kernels = setting_choice("DEVICE_KERNELS"),
                            snapshot = setting_choice("DEVICE_SNAPSHOT"),
                            classes = setting_choice("DEVICE_CLASSES");
  for (const Result<std::string>* read : {&device_kernels, &snapshot, &classes})
    SPARCL_RETURN_IF_ERROR(read->status());
  warn_of_unknown_settings(collectives::algorithm_settings());
  state->freeze();
  std::unique_ptr<AttachedState> made(new AttachedState(state));
  state->is_attached = true;
  state->is_subscribed = use == Use::kWrite;
  if (!state->is_mirror_ahead) state->mirror = nullptr;  // a copy of the model, that updates made
  if (threads > 1) made->workers_ = std::make_unique<WorkerPool>(threads);
  made->view_.map = &*state->map;
  made->view_.schema_hash = state->schema_hash;
  made->schema_ = model::serialise(state->schema);
  made->view_.schema = made->schema_;
  SPARCL_ASSIGN_OR_RETURN(made->view_.schema_digest, model::sha256_of(made->schema_));
  made->arrays_ = state->data_in(MemorySpace::kHost);
  made->view_.arrays = made->arrays_;
  made->view_.kernels = bodies == "ref" ? &kernels::reference_kernels() : &kernels::cpu_kernels();
  SPARCL_RETURN_IF_ERROR(use == Use::kRead ? made->find_sources() : made->make_mirror());
  if (use == Use::kRead && *device_kernels == "on" && *snapshot == "on")
    made->finder_ = change_finder_for(*state);
  made->view_.finder = made->finder_.get();
  made->view_.found_in_classes = *classes == "on";
  made->view_.array_name = [own = state.get()](std::uint32_t array) {
    return model::in_quotes(own->schema[array].name);
  };
  made->view_.verify_all = verify == "full";  // what changes is checked always
  made->view_.workers = made->workers_.get();
  return made;
}

// The sources of tensors that are not in host memory: masters on either side, and tensors in device
// memory.
Status AttachedState::find_sources() {
  std::vector<const codec::ArraySource*> sources(state_.data.size(), nullptr);
  if (state_.has_device_memory()) SPARCL_RETURN_IF_ERROR(read_device());
  const auto is_on_device = [&](std::size_t i) { return state_.spaces[i] == MemorySpace::kDevice; };
  if (!state_.masters.empty()) {
    std::vector<const float*> on_host = state_.masters;
    for (std::size_t i = 0; i < on_host.size(); ++i)
      on_host[i] = is_on_device(i) ? nullptr : on_host[i];
    masters_ = std::make_unique<codec::CastSource>(*state_.map, std::move(on_host), *view_.kernels,
                                                   device_.get());
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const bool is_master = masters_ != nullptr && state_.masters[i] != nullptr;
    if (is_master || is_on_device(i))
      sources[i] = is_master ? static_cast<codec::ArraySource*>(masters_.get()) : device_.get();
  }
  if (masters_ == nullptr && device_ == nullptr) return {};
  sources_ = std::make_unique<codec::RoutedSource>(std::move(sources));
  view_.source = sources_.get();
  return {};
}

Status AttachedState::read_device() {
  std::vector<codec::ArraySpec> specs(state_.map->arrays().begin(), state_.map->arrays().end());
  std::vector<const std::byte*> arrays(specs.size(), nullptr);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (state_.spaces[i] != MemorySpace::kDevice) continue;
    arrays[i] = state_.data[i];
    if (arrays[i] != nullptr) continue;
    arrays[i] = reinterpret_cast<const std::byte*>(state_.masters[i]);
    specs[i].datatype = DataType::kFloat32;
  }
  lying_.emplace(specs);
  Result<std::unique_ptr<model::DeviceTensorSource>> device =
      model::DeviceTensorSource::create(*lying_, std::move(arrays));
  if (device.ok()) device_ = std::move(*device);
  return device.status();
}

// The tensors may already be a version that the publisher knows.
Status AttachedState::make_mirror() {
  if (!state_.has_device_memory()) return {};
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<model::DeviceTensors> made,
                          state_.make_mirror(*view_.kernels));
  mirrored_ = std::move(made);
  SPARCL_RETURN_IF_ERROR(mirrored_->read(nullptr));
  view_.arrays = mirrored_->mirror();
  view_.device = mirrored_.get();
  return {};
}

void AttachedState::begin_writing() {
  state_.mirror = nullptr;
  state_.is_torn = state_.is_torn || state_.is_mirror_ahead;  // until it has written a version
  state_.is_mirror_ahead = false;
  state_.tracked_hash.reset();
}

AttachedState::~AttachedState() { state_.is_attached = state_.is_subscribed = false; }

}  // namespace sparcl::api
