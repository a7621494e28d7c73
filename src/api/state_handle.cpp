#include "src/api/state_handle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>

#include "src/api/call_checks.hpp"
#include "src/api/device_kernel_choice.hpp"
#include "src/api/error.hpp"
#include "src/codec/cast_source.hpp"
#include "src/codec/state_hash.hpp"
#include "src/gpu/device_memory.hpp"
#include "src/model/device_tensor_source.hpp"
#include "src/model/text.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::guarded;
using sparcl::api::guarded_with;
using sparcl::api::Marks;

namespace {

constexpr int kMaxDimensions = 64;  // what frameworks have at most

// "'layer.bias' float32 [2, 3]"
std::string describe_tensor(const sparcl::model::TensorSchema& tensor) {
  return fmt::format("{} {}", sparcl::model::in_quotes(tensor.name),
                     sparcl::model::describe_kind(tensor));
}

// Brings the tensors into the order of their priorities.
void sort_by_priority(sparclState& state) {
  std::vector<std::size_t> order(state.schema.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return state.roles[a].priority > state.roles[b].priority;
  });
  const auto reorder = [&](auto& list) {
    std::remove_reference_t<decltype(list)> sorted;
    for (const std::size_t i : order) sorted.push_back(std::move(list[i]));
    list = std::move(sorted);
  };
  reorder(state.schema);
  reorder(state.data);
  reorder(state.spaces);
  if (!state.masters.empty()) reorder(state.masters);
  reorder(state.roles);
  if (state.marks.empty()) return;
  state.marks.resize(state.schema.size());
  reorder(state.marks);  // moved, not copied: hints are views of what they own
}

}  // namespace

Status sparclState::check_in_memory() const {
  const auto master =
      std::ranges::find_if(masters, [](const float* each) { return each != nullptr; });
  if (master == masters.end()) return Status();
  const std::string& name = schema[static_cast<std::size_t>(master - masters.begin())].name;
  return Status(Code::kUnsupported,
                fmt::format("{} is rounded from its master when it is published: such a state has "
                            "a publisher, and nothing else",
                            sparcl::model::in_quotes(name)));
}

sparcl::Status sparclState::check_idle() const {
  if (!in_flight) return {};
  return sparcl::Status(
      sparcl::Code::kInvalidUsage,
      "a broadcast of this state is in flight: wait for it, or destroy its communicator, first");
}

sparcl::Status sparclState::check_still() const {
  if (written_until == nullptr || written_until->is_over()) return {};
  return sparcl::Status(sparcl::Code::kInvalidUsage,
                        "a stream that is stuck, and that an update was given, may still write the "
                        "tensors in device memory: let it come to its end first");
}

sparcl::Status sparclState::check_complete() const {
  if (is_torn) {
    return sparcl::Status(
        sparcl::Code::kInvalidUsage,
        "an update failed while it was written to the tensors in device memory, which are no "
        "version since: receive one that sends all, or make another state of them");
  }
  if (!is_mirror_ahead) return {};
  return sparcl::Status(
      sparcl::Code::kInvalidUsage,
      fmt::format("the tensors in device memory lack what version {} brought (its error said so): "
                  "receive an update, or make another state of them, which sends all",
                  version));
}

bool sparclState::has_device_memory() const {
  return std::ranges::find(spaces, sparcl::MemorySpace::kDevice) != spaces.end();
}

std::vector<std::byte*> sparclState::data_in(sparcl::MemorySpace space) const {
  std::vector<std::byte*> found(data.size(), nullptr);
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (spaces[i] == space) found[i] = data[i];
  }
  return found;
}

Result<std::unique_ptr<sparcl::model::DeviceTensors>> sparclState::make_mirror(
    const sparcl::kernels::KernelSet& kernels) const {
  const Result<const sparcl::kernels::DeviceKernelSet*> device = sparcl::api::device_kernels();
  return sparcl::model::DeviceTensors::create(
      *map, {data_in(sparcl::MemorySpace::kHost), data_in(sparcl::MemorySpace::kDevice)}, kernels,
      device.ok() ? *device : nullptr);
}

void sparclState::freeze() {
  if (map) return;
  masters.resize(masters.empty() ? 0 : schema.size());
  roles.resize(roles.empty() ? 0 : schema.size());
  if (!roles.empty()) sort_by_priority(*this);
  std::vector<sparcl::codec::ArraySpec> arrays;
  for (const sparcl::model::TensorSchema& tensor : schema) {
    arrays.push_back({tensor.datatype, sparcl::model::element_count(tensor).value()});
  }
  schema_hash = sparcl::model::schema_hash(schema);
  parts.sketch = sparcl::collectives::broadcast::sketch_of(sparcl::model::tensor_hashes(schema));
  parts.count = schema.size();
  parts.name = [this](std::uint64_t tensor) { return describe_tensor(schema[tensor]); };
  map.emplace(arrays);
}

std::vector<const sparcl::codec::ChangedHint*> sparclState::hints() const {
  static constexpr sparcl::codec::ChangedHint kNothing{};
  std::vector<const sparcl::codec::ChangedHint*> hints;
  if (marks.empty() && roles.empty()) return hints;
  hints.resize(schema.size());
  for (std::size_t i = 0; i < hints.size(); ++i) {
    const bool is_marked =
        i < marks.size() && marks[i].kind != Marks::Kind::kUnknown && !marks[i].mixed;
    if (is_marked) hints[i] = &marks[i].hint;
    if (i < roles.size() && !roles[i].trainable) hints[i] = &kNothing;
  }
  if (std::ranges::all_of(hints, [](const auto* hint) { return hint == nullptr; })) hints.clear();
  return hints;
}

sparcl::api::TensorRole& sparclState::role(std::size_t tensor) {
  roles.resize(schema.size());
  return roles[tensor];
}

Result<std::size_t> sparclState::find(const char* name) const {
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].name == name) return i;
  }
  return Status(Code::kInvalidArgument, fmt::format("the state has no tensor '{}'", name));
}

std::vector<std::size_t> sparclState::named(const char* name) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].name == name) found.push_back(i);
  }
  return found;
}

namespace {

// The number of a tensor that may be changed now: a broadcast in flight reads what belongs to it.
Result<std::size_t> find_idle(const sparclState& state, const char* name) {
  if (name == nullptr) return Status(Code::kInvalidArgument, "name is NULL");
  SPARCL_RETURN_IF_ERROR(state.check_idle());
  return state.find(name);
}

// A tensor's marks, ready to be added to.
Result<Marks*> open_marks(sparclState& state, const char* name) {
  SPARCL_ASSIGN_OR_RETURN(const std::size_t tensor, find_idle(state, name));
  if (const std::size_t slices = state.named(name).size(); slices > 1) {
    return Status(Code::kInvalidUsage,
                  fmt::format("'{}' has {} slices in this state, so that a number does not say "
                              "which element: leave the marks out, and all of it is compared",
                              name, slices));
  }
  state.marks.resize(state.schema.size());
  return &state.marks[tensor];
}

std::uint64_t count_of(const sparclState& state, const char* name) {
  return sparcl::model::element_count(state.schema[state.find(name).value()]).value();
}

Status check_indices(const uint64_t* indices, size_t nnz, std::uint64_t count, const char* name) {
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_array("nnz", nnz, sizeof(uint64_t)));
  if (nnz > 0 && indices == nullptr) return Status(Code::kInvalidArgument, "indices is NULL");
  for (size_t i = 0; i < nnz; ++i) {
    if (indices[i] >= count || (i > 0 && indices[i] <= indices[i - 1])) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("indices[{}] = {} of '{}': indices must ascend strictly and lie below {}", i,
                      indices[i], name, count));
    }
  }
  return Status();
}

void add_indices(Marks& marks, const uint64_t* indices, size_t nnz) {
  marks.mixed = marks.mixed || marks.kind == Marks::Kind::kBlocks;
  marks.kind = Marks::Kind::kIndices;
  std::vector<std::uint64_t> merged;
  merged.reserve(marks.indices.size() + nnz);
  std::set_union(marks.indices.begin(), marks.indices.end(), indices, indices + nnz,
                 std::back_inserter(merged));
  marks.indices = std::move(merged);
  marks.hint = {.indices = marks.indices, .blocks = {}, .block_elements = 0};
}

void add_blocks(Marks& marks, const uint64_t* bitmap, size_t words, size_t block) {
  marks.mixed = marks.mixed || marks.kind == Marks::Kind::kIndices ||
                (marks.kind == Marks::Kind::kBlocks && marks.block_elements != block);
  marks.kind = Marks::Kind::kBlocks;
  marks.block_elements = block;
  marks.bitmap.resize(words);
  for (size_t i = 0; i < words; ++i) marks.bitmap[i] |= bitmap[i];
  marks.hint = {.indices = {}, .blocks = marks.bitmap, .block_elements = block};
}

// Two tensors in the same memory (tied weights) would be updated twice.
Status check_overlap(const sparclState& state, const sparcl::model::TensorSchema& tensor,
                     const std::byte* data, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < state.schema.size(); ++i) {
    if (state.data[i] == nullptr) continue;
    const auto other = reinterpret_cast<std::uintptr_t>(state.data[i]);
    const std::uint64_t other_bytes = sparcl::model::element_count(state.schema[i]).value() *
                                      sparcl::element_bytes(state.schema[i].datatype);
    if (begin < other + other_bytes && other < begin + bytes) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("'{}' shares memory with '{}': add tied weights once, under one name",
                      tensor.name, state.schema[i].name));
    }
  }
  return Status();
}

Status check_new_tensor(const sparclState& state, const sparcl::model::TensorSchema& tensor,
                        const void* data, const char* what) {
  if (state.map)
    return Status(Code::kInvalidUsage,
                  fmt::format("'{}' comes after the state's first use", tensor.name));
  for (const std::size_t other : state.named(tensor.name.c_str())) {
    if (!tensor.slice && !state.schema[other].slice) {
      return Status(Code::kInvalidArgument,
                    fmt::format("the state already has a tensor '{}'", tensor.name));
    }
    SPARCL_RETURN_IF_ERROR(sparcl::model::check_beside(tensor, state.schema[other]));
  }
  SPARCL_RETURN_IF_ERROR(sparcl::model::check_slice(tensor));
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t count, sparcl::model::element_count(tensor));
  if (count > 0 && data == nullptr)
    return Status(Code::kInvalidArgument, fmt::format("{} of '{}' is NULL", what, tensor.name));
  return Status();
}

Status check_memory(const sparclState& state, const sparcl::model::TensorSchema& tensor,
                    const void* data) {
  const Result<std::uint64_t> count = sparcl::model::element_count(tensor);
  return check_overlap(state, tensor, static_cast<const std::byte*>(data),
                       *count * sparcl::element_bytes(tensor.datatype));
}

Status check_dimensions(const char* name, int ndim, const uint64_t* values, const char* which) {
  if (ndim > kMaxDimensions) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'{}': ndim is {}: a tensor has at most {} dimensions", name, ndim,
                              kMaxDimensions));
  }
  if (ndim >= 0 && (ndim == 0 || values != nullptr)) return Status();
  return Status(Code::kInvalidArgument, fmt::format("'{}': ndim is {}, {} {}", name, ndim, which,
                                                    values ? "given" : "NULL"));
}

Result<sparcl::model::TensorSchema> read_tensor(const char* name, sparclDataType_t datatype,
                                                int ndim, const uint64_t* shape) {
  if (name == nullptr) return Status(Code::kInvalidArgument, "name is NULL");
  SPARCL_RETURN_IF_ERROR(sparcl::model::check_tensor_name(name));
  const sparcl::DataTypeInfo* type = sparcl::find_data_type(static_cast<int>(datatype));
  if (type == nullptr) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'{}': {} is no data type", name, static_cast<int>(datatype)));
  }
  SPARCL_RETURN_IF_ERROR(check_dimensions(name, ndim, shape, "shape"));
  return sparcl::model::TensorSchema{name, type->type,
                                     std::vector<std::uint64_t>(shape, shape + ndim)};
}

Status add_tensor(sparclState& state, sparcl::model::TensorSchema tensor, void* data) {
  SPARCL_RETURN_IF_ERROR(check_new_tensor(state, tensor, data, "data"));
  SPARCL_RETURN_IF_ERROR(check_memory(state, tensor, data));
  const bool is_empty = *sparcl::model::element_count(tensor) == 0;
  state.schema.push_back(std::move(tensor));
  state.data.push_back(static_cast<std::byte*>(data));
  state.spaces.push_back(is_empty ? sparcl::MemorySpace::kHost : sparcl::gpu::space_of(data));
  return Status();
}

Status add_master(sparclState& state, sparcl::model::TensorSchema tensor, const float* master) {
  if (!sparcl::codec::can_be_cast_to(tensor.datatype)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("'{}' is to be {}: a master can be published as float16, bfloat16, float8e4m3 "
                    "or float8e5m2",
                    tensor.name, sparcl::find_data_type(static_cast<int>(tensor.datatype))->name));
  }
  SPARCL_RETURN_IF_ERROR(check_new_tensor(state, tensor, master, "master"));
  const bool is_empty = *sparcl::model::element_count(tensor) == 0;
  state.masters.resize(state.schema.size());
  state.schema.push_back(std::move(tensor));
  state.data.push_back(nullptr);
  state.spaces.push_back(is_empty ? sparcl::MemorySpace::kHost : sparcl::gpu::space_of(master));
  state.masters.push_back(master);
  return Status();
}

// Device memory is read behind the work on its default stream.
Result<sparcl::Hash128> hash_of(const sparclState& state) {
  const std::vector<std::byte*> on_host = state.data_in(sparcl::MemorySpace::kHost);
  const sparcl::kernels::KernelSet& kernels = sparcl::kernels::cpu_kernels();
  if (!state.has_device_memory()) {
    return sparcl::codec::state_hash(*state.map,
                                     std::vector<const std::byte*>(on_host.begin(), on_host.end()),
                                     state.schema_hash, kernels);
  }
  const std::vector<std::byte*> elsewhere = state.data_in(sparcl::MemorySpace::kDevice);
  SPARCL_ASSIGN_OR_RETURN(auto source, sparcl::model::DeviceTensorSource::create(
                                           *state.map, {elsewhere.begin(), elsewhere.end()}));
  (source)->begin(nullptr);
  const sparcl::codec::ArrayInput input{{on_host.begin(), on_host.end()}, source.get()};
  const sparcl::Hash128 sum =
      sparcl::codec::blocks_hash(*state.map, input, 0, state.map->block_count(), kernels);
  SPARCL_RETURN_IF_ERROR((source)->end());
  return state.schema_hash + sum;
}

}  // namespace

extern "C" {

sparclResult_t sparclStateCreate(sparclState_t* state) {
  return guarded([&]() -> Status {
    if (state == nullptr) return Status(Code::kInvalidArgument, "sparclStateCreate: state is NULL");
    *state = std::make_unique<sparclState>().release()->handle.get();
    return Status();
  });
}

sparclResult_t sparclStateAdd(sparclState_t state, const char* name, void* data,
                              sparclDataType_t datatype, int ndim, const uint64_t* shape) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    Result<sparcl::model::TensorSchema> tensor = read_tensor(name, datatype, ndim, shape);
    return tensor.ok() ? add_tensor(own, std::move(*tensor), data) : tensor.status();
  });
}

sparclResult_t sparclStateAddSlice(sparclState_t state, const char* name, void* data,
                                   sparclDataType_t datatype, int ndim, const uint64_t* shape,
                                   const uint64_t* begin, const uint64_t* extent) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    SPARCL_ASSIGN_OR_RETURN(sparcl::model::TensorSchema tensor,
                            read_tensor(name, datatype, ndim, shape));
    SPARCL_RETURN_IF_ERROR(check_dimensions(name, ndim, begin, "begin"));
    SPARCL_RETURN_IF_ERROR(check_dimensions(name, ndim, extent, "extent"));
    sparcl::model::TensorSlice slice{{begin, begin + ndim}, {extent, extent + ndim}};
    const bool is_whole =
        slice.extent == tensor.shape && std::count(begin, begin + ndim, 0U) == ndim;
    if (!is_whole) tensor.slice = std::move(slice);
    return add_tensor(own, std::move(tensor), data);
  });
}

sparclResult_t sparclStateAddMaster(sparclState_t state, const char* name, const float* master,
                                    sparclDataType_t datatype, int ndim, const uint64_t* shape) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    Result<sparcl::model::TensorSchema> tensor = read_tensor(name, datatype, ndim, shape);
    return tensor.ok() ? add_master(own, std::move(*tensor), master) : tensor.status();
  });
}

sparclResult_t sparclStateMarkIndices(sparclState_t state, const char* name,
                                      const uint64_t* indices, size_t nnz) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    Result<Marks*> marks = open_marks(own, name);
    if (!marks.ok()) return marks.status();
    SPARCL_RETURN_IF_ERROR(check_indices(indices, nnz, count_of(own, name), name));
    add_indices(**marks, indices, nnz);
    return Status();
  });
}

sparclResult_t sparclStateMarkBlocks(sparclState_t state, const char* name, const uint64_t* bitmap,
                                     size_t block) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    Result<Marks*> marks = open_marks(own, name);
    if (!marks.ok()) return marks.status();
    if (block == 0)
      return Status(Code::kInvalidArgument, "block is 0: give the number of elements of a block");
    const std::uint64_t count = count_of(own, name);
    const std::uint64_t blocks = count / block + (count % block != 0);
    if (blocks > 0 && bitmap == nullptr) return Status(Code::kInvalidArgument, "bitmap is NULL");
    add_blocks(**marks, bitmap, blocks / 64 + (blocks % 64 != 0), block);
    return Status();
  });
}

sparclResult_t sparclStateSetTrainable(sparclState_t state, const char* name, int trainable) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    SPARCL_RETURN_IF_ERROR(find_idle(own, name).status());
    for (const std::size_t each : own.named(name)) own.role(each).trainable = trainable != 0;
    return Status();
  });
}

sparclResult_t sparclStateSetPriority(sparclState_t state, const char* name, int priority) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    SPARCL_RETURN_IF_ERROR(find_idle(own, name).status());
    if (own.map)
      return Status(Code::kInvalidUsage,
                    fmt::format("'{}' comes after the state's first use", name));
    for (const std::size_t each : own.named(name)) own.role(each).priority = priority;
    return Status();
  });
}

sparclResult_t sparclStateVersion(sparclState_t state, uint64_t* version) {
  return guarded_with(__func__, state, "state", [&](const sparclState& own) -> Status {
    if (version == nullptr) return Status(Code::kInvalidArgument, "version is NULL");
    *version = own.version;
    return Status();
  });
}

sparclResult_t sparclStateHash(sparclState_t state, uint8_t hash[16]) {
  return guarded_with(__func__, state, "state", [&](sparclState& own) -> Status {
    if (hash == nullptr) return Status(Code::kInvalidArgument, "hash is NULL");
    SPARCL_RETURN_IF_ERROR(own.check_idle());
    SPARCL_RETURN_IF_ERROR(own.check_in_memory());
    own.freeze();
    SPARCL_ASSIGN_OR_RETURN(const sparcl::Hash128 found, hash_of(own));
    const auto bytes = sparcl::to_bytes(found);
    std::memcpy(hash, bytes.data(), bytes.size());
    return Status();
  });
}

sparclResult_t sparclStateDestroy(sparclState_t state) {
  return sparcl::api::destroy_handle(__func__, state, "state", [](const sparclState& own) {
    SPARCL_RETURN_IF_ERROR(own.check_idle());
    if (own.is_attached)
      return Status(
          Code::kInvalidUsage,
          "this state has a publisher, a subscriber or a store: destroy or close that first");
    return Status();
  });
}

}  // extern "C"
