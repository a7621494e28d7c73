#include "src/model/device_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sparcl::model {
namespace {

constexpr std::uint64_t kMostNoted = 8;  // of the elements one: more are written with all others, which takes no more bytes and no
                                         // memory on the device. Heuristic
constexpr std::size_t kAlignment = 16;   // of what kernels read
constexpr const char* kAsTheyWere = "the new version did not reach the tensors, which hold what they held: ";
constexpr const char* kHalfDone =
    "the new version reached some of the tensors in device memory, which are no version until a call has brought all of it: ";

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Result<std::unique_ptr<DeviceTensors>> DeviceTensors::create(const codec::BlockMap& map, Places places,
                                                             const kernels::KernelSet& kernels,
                                                             const kernels::DeviceKernelSet* device) {
  std::unique_ptr<DeviceTensors> made(new DeviceTensors(map, std::move(places), kernels, device));
  Result<std::unique_ptr<DeviceTensorSource>> source =
      DeviceTensorSource::create(map, {made->places_.on_device.begin(), made->places_.on_device.end()});
  if (!source.ok()) return source.status();
  made->source_ = std::move(*source);
  return made;
}

DeviceTensors::DeviceTensors(const codec::BlockMap& map, Places places, const kernels::KernelSet& kernels,
                             const kernels::DeviceKernelSet* device)
    : map_(map), places_(std::move(places)), kernels_(kernels), device_(device), noted_(map) {}

std::size_t DeviceTensors::bytes_of(std::size_t array) const {
  const codec::ArraySpec& spec = map_.arrays()[array];
  return spec.count * element_bytes(spec.datatype);
}

Status DeviceTensors::read(void* stream) {
  if (stream != nullptr && source_->contexts().size() > 1) {
    return Status(Code::kInvalidArgument, "the state has tensors on several GPUs, and a stream is one's: pass stream NULL");
  }
  source_->begin(stream);
  const Status taken = mirror_.take(map_, places_.on_host, source_.get());
  const Status ended = source_->end();
  SPARCL_RETURN_IF_ERROR(taken);
  SPARCL_RETURN_IF_ERROR(ended);
  noted_.clear();
  is_known_ = true;
  return {};
}

void DeviceTensors::note(const codec::ChangeLog& replaced) noexcept try {
  if (!is_known_) return;
  if (noted_.count() + replaced.changes() > map_.element_count() / kMostNoted) return note_all();
  for (std::size_t i = 0; i < replaced.size(); ++i) noted_.add(replaced[i].index, replaced[i].positions);
} catch (const std::bad_alloc&) {
  note_all();
}

void DeviceTensors::note_all() noexcept {
  is_known_ = false;
  noted_.clear();
}

Status DeviceTensors::note_differences(void* stream) {
  noted_.clear();
  is_known_ = true;
  source_->begin(stream);
  const codec::ArrayInput tensors{{places_.on_host.begin(), places_.on_host.end()}, source_.get()};
  codec::BlockInput input;
  std::vector<codec::Piece> pieces;
  std::vector<std::uint16_t> positions(codec::kBlockElements + kernels::kPositionSlack);
  for (std::uint64_t block = 0; block < map_.block_count() && is_known_; ++block) {
    const DataType type = map_.block(block, pieces);
    const codec::BlockView view = input.read(tensors, codec::shape_of(type, pieces), pieces);
    std::size_t found = 0;
    for (const codec::Piece& piece : pieces) {
      const std::byte* const wanted = mirror()[piece.array] + piece.first * element_bytes(type);
      found += kernels_.of(type).diff(codec::data_of(view, pieces, piece), wanted, piece.count, piece.offset, &positions[found]);
    }
    if (noted_.count() + found > map_.element_count() / kMostNoted) {
      note_all();
    } else {
      noted_.add(block, {positions.data(), found});
    }
  }
  const Status ended = source_->end();
  if (!ended.ok()) note_all();
  return ended;
}

Status DeviceTensors::write(void* stream) {
  if (!is_behind()) return {};
  const bool can_stage_changes = is_known_ && can_scatter();
  Status status = !is_known_ ? write_all(stream) : can_stage_changes ? write_changes(stream) : write_pieces(stream);
  // A GPU that a model fills has no room for what changes: it is still to get there.
  if (status.code() == Code::kOutOfMemory && can_stage_changes && is_known_) status = write_pieces(stream);
  if (status.ok()) {
    noted_.clear();
    is_known_ = true;
  }
  return status;
}

// Kernels are there, run on these GPUs, and take these addresses.
bool DeviceTensors::can_scatter() {
  if (can_scatter_) return *can_scatter_;
  can_scatter_ = device_ != nullptr;
  for (std::size_t i = 0; i < places_.on_device.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(places_.on_device[i]);
    if (address % element_bytes(map_.arrays()[i].datatype) != 0) can_scatter_ = false;
  }
  for (void* const context : source_->contexts()) {
    if (!*can_scatter_) break;
    const DeviceScope inside(context);
    can_scatter_ = inside.status().ok() && device_->check_device().ok();
  }
  return *can_scatter_;
}

Status DeviceTensors::wait_for_all(void* stream) const {
  Status first;
  for (void* const context : source_->contexts()) {
    const DeviceScope inside(context);
    const Status status = inside.status().ok() ? wait_for(stream) : inside.status();
    if (first.ok()) first = status;
  }
  return first;
}

Status DeviceTensors::copy_out(std::size_t array, std::size_t begin, std::size_t bytes, void* stream) {
  return copies_.to_device(places_.on_device[array] + begin, mirror()[array] + begin, bytes, stream);
}

Status DeviceTensors::write_all(void* stream) {
  Status status;
  for (std::size_t i = 0; i < places_.on_device.size() && status.ok(); ++i) {
    if (places_.on_device[i] != nullptr) status = copy_out(i, 0, bytes_of(i), stream);
  }
  if (!status.ok()) {
    (void)wait_for_all(stream);
    return status.with_prefix(kHalfDone);
  }
  for (std::size_t i = 0; i < places_.on_host.size(); ++i) {
    if (places_.on_host[i] != nullptr && bytes_of(i) > 0) std::memcpy(places_.on_host[i], mirror()[i], bytes_of(i));
  }
  return {};
}

// All that changed of tensors on the host.
std::vector<NotedChanges::OfArray> DeviceTensors::changes_on_host() {
  std::vector<NotedChanges::OfArray> found;
  noted_.for_each_array([&](const NotedChanges::OfArray& changes) {
    if (places_.on_host[changes.array] != nullptr) found.push_back(changes);
  });
  return found;
}

void DeviceTensors::write_on_host(std::span<const NotedChanges::OfArray> all) const {
  for (const NotedChanges::OfArray& changes : all) {
    const std::size_t width = element_bytes(map_.arrays()[changes.array].datatype);
    for (std::size_t part = 0; part < changes.parts.size(); ++part) {
      for (std::size_t i = changes.parts[part].begin; i < changes.end(part); ++i) {
        const std::size_t at = changes.element(part, i) * width;
        std::memcpy(places_.on_host[changes.array] + at, mirror()[changes.array] + at, width);
      }
    }
  }
}

// Blocks of each tensor, those that follow one another at once.
Status DeviceTensors::write_pieces(void* stream) {
  const std::vector<NotedChanges::OfArray> on_host = changes_on_host();
  is_known_ = false;
  Status status;
  noted_.for_each_array([&](const NotedChanges::OfArray& changes) {
    if (places_.on_device[changes.array] == nullptr) return;
    const std::size_t block_bytes = codec::kBlockElements * element_bytes(map_.arrays()[changes.array].datatype);
    for (std::size_t i = 0; i < changes.parts.size() && status.ok();) {
      const std::size_t first = changes.parts[i].block;
      std::size_t last = first;
      for (; i < changes.parts.size() && changes.parts[i].block == last; ++i) ++last;
      const std::size_t end = std::min(last * block_bytes, bytes_of(changes.array));
      status = copy_out(changes.array, first * block_bytes, end - first * block_bytes, stream);
    }
  });
  if (!status.ok()) {
    (void)wait_for_all(stream);
    return status.with_prefix(kHalfDone);
  }
  write_on_host(on_host);
  return {};
}

Status DeviceTensors::write_changes(void* stream) {
  const std::vector<NotedChanges::OfArray> on_host = changes_on_host();
  std::vector<Staged> all;
  for (void* const context : source_->contexts()) all.push_back({context, {}, {}, {}});
  noted_.for_each_array([&](const NotedChanges::OfArray& changes) {
    if (places_.on_device[changes.array] == nullptr) return;
    add_to(*std::ranges::find(all, source_->context(changes.array), &Staged::context), changes);
  });
  std::erase_if(all, [](const Staged& each) { return each.image.empty(); });
  for (Staged& each : all) {
    if (const Status status = stage(each, stream); !status.ok()) {
      (void)wait_for_all(stream);
      return status.with_prefix(kAsTheyWere);
    }
  }
  is_known_ = all.empty();
  Status status;
  for (const Staged& each : all) {
    if (status.ok()) status = scatter(each, stream);
  }
  const Status waited = wait_for_all(stream);
  if (status.ok()) status = waited;
  if (!status.ok()) return status.with_prefix(kHalfDone);
  write_on_host(on_host);
  return {};
}

void DeviceTensors::gather(const NotedChanges::OfArray& changes, std::byte* values) const {
  const DataType type = map_.arrays()[changes.array].datatype;
  const std::size_t width = element_bytes(type);
  for (std::size_t i = 0; i < changes.parts.size(); ++i) {
    const NotedChanges::OfArray::Part& part = changes.parts[i];
    kernels_.of(type).gather(mirror()[changes.array] + part.block * codec::kBlockElements * width,
                             changes.positions.data() + part.begin, changes.end(i) - part.begin, 0, values + part.begin * width,
                             {});
  }
}

void DeviceTensors::add_to(Staged& staged, const NotedChanges::OfArray& changes) const {
  const std::size_t width = element_bytes(map_.arrays()[changes.array].datatype), count = changes.positions.size();
  Staged::Scatter scatter;
  scatter.array = changes.array;
  scatter.count = count;
  scatter.part_count = changes.parts.size();
  scatter.parts = staged.image.size();
  scatter.values = scatter.parts + aligned((scatter.part_count + 1) * sizeof(kernels::MaskPart));
  scatter.positions = scatter.values + aligned(count * width);
  staged.image.resize(scatter.positions + aligned(count * sizeof(std::uint16_t)));
  std::vector<kernels::MaskPart> parts;
  for (const NotedChanges::OfArray::Part& part : changes.parts) parts.push_back({part.block, part.begin});
  parts.push_back({0, count});
  std::memcpy(&staged.image[scatter.parts], parts.data(), parts.size() * sizeof(kernels::MaskPart));
  gather(changes, &staged.image[scatter.values]);
  std::memcpy(&staged.image[scatter.positions], changes.positions.data(), count * sizeof(std::uint16_t));
  staged.scatters.push_back(scatter);
}

Status DeviceTensors::stage(Staged& staged, void* stream) {
  Result<DeviceBuffer> memory = DeviceBuffer::allocate(staged.context, staged.image.size());
  if (!memory.ok()) return memory.status();
  staged.memory = std::move(*memory);
  return copies_.to_device(staged.memory.data(), staged.image.data(), staged.image.size(), stream);
}

Status DeviceTensors::scatter(const Staged& staged, void* stream) const {
  const DeviceScope inside(staged.context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  const auto* const memory = static_cast<const std::byte*>(staged.memory.data());
  for (const Staged::Scatter& each : staged.scatters) {
    kernels::MaskPlaces places;
    places.count = each.count;
    places.parts = reinterpret_cast<const kernels::MaskPart*>(memory + each.parts);
    places.part_count = each.part_count;
    places.positions = reinterpret_cast<const std::uint16_t*>(memory + each.positions);
    SPARCL_RETURN_IF_ERROR(device_->scatter_mask(places, memory + each.values, element_bytes(map_.arrays()[each.array].datatype),
                                                 places_.on_device[each.array], stream));
  }
  return {};
}

}  // namespace sparcl::model
