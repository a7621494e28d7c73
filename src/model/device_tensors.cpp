#include "src/model/device_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "src/model/device_fingerprints.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kMaxNoted =
    8;  // 1 / 8 of the elements: if more changed, all are written, which takes no more bytes and no
        // memory on the device. Heuristic
constexpr std::size_t kKernelAlignment = 16;  // of what kernels read
constexpr const char* kAsTheyWere =
    "the new version did not reach the tensors, which hold what they held: ";
constexpr const char* kHalfDone =
    "the new version reached some of the tensors in device memory, which are no version until a "
    "call has brought all of it: ";

std::size_t kernel_aligned(std::size_t bytes) {
  return (bytes + kKernelAlignment - 1) / kKernelAlignment * kKernelAlignment;
}

}  // namespace

Result<std::unique_ptr<DeviceTensors>> DeviceTensors::create(
    const codec::BlockMap& map, Places places, const kernels::KernelSet& kernels,
    const kernels::DeviceKernelSet* device) {
  std::unique_ptr<DeviceTensors> made(new DeviceTensors(map, std::move(places), kernels, device));
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<DeviceTensorSource> source,
                          DeviceTensorSource::create(map, {made->sets_[0].places.on_device.begin(),
                                                           made->sets_[0].places.on_device.end()}));
  made->source_ = std::move(source);
  return made;
}

DeviceTensors::DeviceTensors(const codec::BlockMap& map, Places places,
                             const kernels::KernelSet& kernels,
                             const kernels::DeviceKernelSet* device)
    : map_(map), kernels_(kernels), device_(device) {
  sets_.push_back({std::move(places), NotedChanges(map)});
}

Status DeviceTensors::make_second_set() {
  const Places& first = sets_[0].places;
  const auto no_room = [this](const Status& why) {
    return why.with_prefix(
        fmt::format("a second set of {} bytes of tensors cannot be had: free memory, or do without "
                    "options.double_buffer: ",
                    map_.byte_count()));
  };
  Places second{std::vector<std::byte*>(first.on_host.size()),
                std::vector<std::byte*>(first.on_device.size())};
  for (std::size_t i = 0; i < first.on_device.size(); ++i) {
    if (first.on_device[i] != nullptr) {
      Result<gpu::DeviceBuffer> made =
          gpu::DeviceBuffer::allocate(source_->context(i), bytes_of(i));
      if (!made.ok()) return no_room(made.status());
      second.on_device[i] = static_cast<std::byte*>(made->data());
      own_on_device_.push_back(std::move(*made));
    } else {
      std::unique_ptr<std::byte[]> made(new (std::nothrow) std::byte[bytes_of(i)]);
      if (made == nullptr) return no_room(Status(Code::kOutOfMemory, "the host's is at an end"));
      second.on_host[i] = made.get();
      own_on_host_.push_back(std::move(made));
    }
  }
  sets_.push_back({std::move(second), NotedChanges(map_)});
  return {};
}

std::size_t DeviceTensors::bytes_of(std::size_t array) const {
  return map_.arrays()[array].bytes();
}

Status DeviceTensors::check_stream(void* stream) const {
  if (stream == nullptr || source_->contexts().size() <= 1) return {};
  return Status(Code::kInvalidArgument,
                "the state has tensors on several GPUs, and a stream is one's: pass stream NULL");
}

Status DeviceTensors::read(void* stream) {
  SPARCL_RETURN_IF_ERROR(check_stream(stream));
  const std::vector<Hash128> known = std::exchange(remembered_, {});
  const std::vector<Hash128> fingerprints = look(stream);
  source_->begin(stream);
  const Status taken = known.empty() || fingerprints.empty()
                           ? mirror_.take(map_, sets_[0].places.on_host, source_.get())
                           : read_changed(fingerprints, known);
  const Status ended = source_->end();
  SPARCL_RETURN_IF_ERROR(taken);
  SPARCL_RETURN_IF_ERROR(ended);
  remembered_ = fingerprints;
  note_all();
  sets_[0].is_known = true;
  return {};
}

// Tensors on the host are copied in any case.
Status DeviceTensors::read_changed(std::span<const Hash128> fingerprints,
                                   std::span<const Hash128> known) {
  const Places& places = sets_[0].places;
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    if (places.on_host[i] != nullptr && bytes_of(i) > 0)
      std::memcpy(mirror()[i], places.on_host[i], bytes_of(i));
    if (places.on_device[i] == nullptr || fingerprints[i] == known[i]) continue;
    source_->read(static_cast<std::uint32_t>(i), 0, map_.arrays()[i].count, mirror()[i]);
  }
  return source_->status();
}

// Returns nothing if there are no kernels, or they fail: then all is read and reports the error.
std::vector<Hash128> DeviceTensors::look(void* stream) {
  if (!can_scatter()) return {};
  Result<std::vector<Hash128>> found =
      device_fingerprints(map_, sets_[0].places.on_device, *source_, *device_, stream);
  return found.ok() ? std::move(*found) : std::vector<Hash128>();
}

void DeviceTensors::remember(void* stream) {
  forget();
  remembered_ = look(stream);
}

void DeviceTensors::note(const codec::ChangeLog& replaced) noexcept {
  for (Set& set : sets_) {
    if (!set.is_known) continue;
    try {
      if (set.noted.count() + replaced.changes() > map_.element_count() / kMaxNoted) {
        set.note_all();
        continue;
      }
      for (std::size_t i = 0; i < replaced.size(); ++i)
        set.noted.add(replaced[i].index, replaced[i].positions);
    } catch (const std::bad_alloc&) {
      set.note_all();
    }
  }
}

void DeviceTensors::note_all() noexcept {
  for (Set& set : sets_) set.note_all();
}

Status DeviceTensors::note_differences(void* stream) {
  Set& set = sets_[0];
  set.note_all();  // until all have been examined
  bool is_known = true;
  source_->begin(stream);
  const codec::ArrayInput tensors{{set.places.on_host.begin(), set.places.on_host.end()},
                                  source_.get()};
  codec::BlockInput input;
  std::vector<codec::Piece> pieces;
  std::vector<std::uint16_t> positions(codec::kBlockElements + kernels::kPositionSlack);
  for (std::uint64_t block = 0; block < map_.block_count() && is_known; ++block) {
    const DataType type = map_.block(block, pieces);
    const codec::BlockView view = input.read(tensors, codec::shape_of(type, pieces), pieces);
    std::size_t found = 0;
    for (const codec::Piece& piece : pieces) {
      const std::byte* const wanted = mirror()[piece.array] + piece.first * element_bytes(type);
      found += kernels_.of(type).diff(codec::data_of(view, pieces, piece), wanted, piece.count,
                                      piece.offset, &positions[found]);
    }
    is_known = set.noted.count() + found <= map_.element_count() / kMaxNoted;
    if (is_known) {
      set.noted.add(block, {positions.data(), found});
    }
  }
  const Status ended = source_->end();
  if (is_known && ended.ok())
    set.is_known = true;
  else
    set.note_all();
  return ended.with_prefix(kAsTheyWere);
}

Status DeviceTensors::write(void* stream) {
  if (!is_behind()) return {};
  SPARCL_RETURN_IF_ERROR(check_stream(stream));
  const std::size_t next = has_two_sets() ? 1 - shown_ : 0;
  Set& set = sets_[next];
  const bool can_stage_changes = set.is_known && can_scatter();
  Status status = !set.is_known       ? write_all(set, stream)
                  : can_stage_changes ? write_changes(set, stream)
                                      : write_pieces(set, stream);
  // A GPU that a model fills has no room for staged changes. They must still be written.
  if (status.code() == Code::kOutOfMemory && can_stage_changes && set.is_known)
    status = write_pieces(set, stream);
  if (!status.ok()) return status;
  set.noted.clear();
  set.is_known = true;
  is_torn_ = false;
  shown_ = next;
  return {};
}

// If there are two sets, the shown one was not written to.
Status DeviceTensors::half_done(const Status& why) {
  is_torn_ = !has_two_sets();
  return why.with_prefix(is_torn_ ? kHalfDone : kAsTheyWere);
}

// Kernels are present, run on these GPUs, and accept these addresses.
bool DeviceTensors::can_scatter() {
  if (can_scatter_) return *can_scatter_;
  can_scatter_ = device_ != nullptr;
  for (std::size_t i = 0; i < sets_[0].places.on_device.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(sets_[0].places.on_device[i]);
    if (address % element_bytes(map_.arrays()[i].datatype) != 0) can_scatter_ = false;
  }
  for (void* const context : source_->contexts()) {
    if (!*can_scatter_) break;
    const gpu::DeviceScope inside(context);
    can_scatter_ = inside.status().ok() && device_->check_device().ok();
  }
  return *can_scatter_;
}

Status DeviceTensors::wait_for_all(void* stream) const {
  Status first;
  for (void* const context : source_->contexts()) {
    const gpu::DeviceScope inside(context);
    const Status status = inside.status().ok() ? gpu::wait_for(stream) : inside.status();
    if (first.ok()) first = status;
  }
  return first;
}

Status DeviceTensors::copy_out(const Set& set, std::size_t array, std::size_t begin,
                               std::size_t bytes, void* stream) {
  const gpu::DeviceScope inside(source_->context(array));
  SPARCL_RETURN_IF_ERROR(inside.status());
  return copies_.to_device(set.places.on_device[array] + begin, mirror()[array] + begin, bytes,
                           stream);
}

Status DeviceTensors::write_all(Set& set, void* stream) {
  Status status;
  for (std::size_t i = 0; i < set.places.on_device.size() && status.ok(); ++i) {
    if (set.places.on_device[i] != nullptr) status = copy_out(set, i, 0, bytes_of(i), stream);
  }
  if (!status.ok()) {
    (void)wait_for_all(stream);
    return half_done(status);
  }
  for (std::size_t i = 0; i < set.places.on_host.size(); ++i) {
    if (set.places.on_host[i] != nullptr && bytes_of(i) > 0)
      std::memcpy(set.places.on_host[i], mirror()[i], bytes_of(i));
  }
  return {};
}

// All changes of tensors on the host.
std::vector<NotedChanges::OfArray> DeviceTensors::changes_on_host(Set& set) const {
  std::vector<NotedChanges::OfArray> found;
  set.noted.for_each_array([&](const NotedChanges::OfArray& changes) {
    if (set.places.on_host[changes.array] != nullptr) found.push_back(changes);
  });
  return found;
}

void DeviceTensors::write_on_host(const Set& set,
                                  std::span<const NotedChanges::OfArray> all) const {
  for (const NotedChanges::OfArray& changes : all) {
    const std::size_t width = element_bytes(map_.arrays()[changes.array].datatype);
    for (std::size_t part = 0; part < changes.parts.size(); ++part) {
      for (std::size_t i = changes.parts[part].begin; i < changes.end(part); ++i) {
        const std::size_t at = changes.element(part, i) * width;
        std::memcpy(set.places.on_host[changes.array] + at, mirror()[changes.array] + at, width);
      }
    }
  }
}

// Blocks of each tensor; consecutive blocks in one copy.
Status DeviceTensors::write_pieces(Set& set, void* stream) {
  const std::vector<NotedChanges::OfArray> on_host = changes_on_host(set);
  set.is_known = false;
  Status status;
  set.noted.for_each_array([&](const NotedChanges::OfArray& changes) {
    if (set.places.on_device[changes.array] == nullptr) return;
    const std::size_t block_bytes =
        codec::kBlockElements * element_bytes(map_.arrays()[changes.array].datatype);
    for (std::size_t i = 0; i < changes.parts.size() && status.ok();) {
      const std::size_t first = changes.parts[i].block;
      std::size_t last = first;
      for (; i < changes.parts.size() && changes.parts[i].block == last; ++i) ++last;
      const std::size_t end = std::min(last * block_bytes, bytes_of(changes.array));
      status = copy_out(set, changes.array, first * block_bytes, end - first * block_bytes, stream);
    }
  });
  if (!status.ok()) {
    (void)wait_for_all(stream);
    return half_done(status);
  }
  write_on_host(set, on_host);
  return {};
}

Status DeviceTensors::write_changes(Set& set, void* stream) {
  const std::vector<NotedChanges::OfArray> on_host = changes_on_host(set);
  std::vector<Staged> all;
  for (void* const context : source_->contexts()) all.push_back({context, {}, {}, {}});
  set.noted.for_each_array([&](const NotedChanges::OfArray& changes) {
    if (set.places.on_device[changes.array] == nullptr) return;
    add_to(*std::ranges::find(all, source_->context(changes.array), &Staged::context), changes);
  });
  std::erase_if(all, [](const Staged& each) { return each.image.empty(); });
  for (Staged& each : all) {
    if (const Status status = stage(each, stream); !status.ok()) {
      (void)wait_for_all(stream);
      return status.with_prefix(kAsTheyWere);
    }
  }
  set.is_known = all.empty();
  Status status;
  for (const Staged& each : all) {
    if (status.ok()) status = scatter(set, each, stream);
  }
  const Status waited = wait_for_all(stream);
  if (status.ok()) status = waited;
  if (!status.ok()) return half_done(status);
  write_on_host(set, on_host);
  return {};
}

void DeviceTensors::gather(const NotedChanges::OfArray& changes, std::byte* values) const {
  const DataType type = map_.arrays()[changes.array].datatype;
  const std::size_t width = element_bytes(type);
  for (std::size_t i = 0; i < changes.parts.size(); ++i) {
    const NotedChanges::OfArray::Part& part = changes.parts[i];
    kernels_.of(type).gather(mirror()[changes.array] + part.block * codec::kBlockElements * width,
                             changes.positions.data() + part.begin, changes.end(i) - part.begin, 0,
                             values + part.begin * width, {});
  }
}

void DeviceTensors::add_to(Staged& staged, const NotedChanges::OfArray& changes) const {
  const std::size_t width = element_bytes(map_.arrays()[changes.array].datatype),
                    count = changes.positions.size();
  Staged::Scatter scatter;
  scatter.array = changes.array;
  scatter.count = count;
  scatter.part_count = changes.parts.size();
  scatter.parts = staged.image.size();
  scatter.values =
      scatter.parts + kernel_aligned((scatter.part_count + 1) * sizeof(kernels::MaskPart));
  scatter.positions = scatter.values + kernel_aligned(count * width);
  staged.image.resize(scatter.positions + kernel_aligned(count * sizeof(std::uint16_t)));
  std::vector<kernels::MaskPart> parts;
  for (const NotedChanges::OfArray::Part& part : changes.parts)
    parts.push_back({part.block, part.begin});
  parts.push_back({0, count});
  std::memcpy(&staged.image[scatter.parts], parts.data(), parts.size() * sizeof(kernels::MaskPart));
  gather(changes, &staged.image[scatter.values]);
  std::memcpy(&staged.image[scatter.positions], changes.positions.data(),
              count * sizeof(std::uint16_t));
  staged.scatters.push_back(scatter);
}

Status DeviceTensors::stage(Staged& staged, void* stream) {
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceBuffer memory,
                          gpu::DeviceBuffer::allocate(staged.context, staged.image.size()));
  staged.memory = std::move(memory);
  return copies_.to_device(staged.memory.data(), staged.image.data(), staged.image.size(), stream);
}

Status DeviceTensors::scatter(const Set& set, const Staged& staged, void* stream) const {
  const gpu::DeviceScope inside(staged.context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  const auto* const memory = static_cast<const std::byte*>(staged.memory.data());
  for (const Staged::Scatter& each : staged.scatters) {
    kernels::MaskPlaces places;
    places.count = each.count;
    places.parts = reinterpret_cast<const kernels::MaskPart*>(memory + each.parts);
    places.part_count = each.part_count;
    places.positions = reinterpret_cast<const std::uint16_t*>(memory + each.positions);
    SPARCL_RETURN_IF_ERROR(device_->scatter_mask(places, memory + each.values,
                                                 element_bytes(map_.arrays()[each.array].datatype),
                                                 set.places.on_device[each.array], stream));
  }
  return {};
}

}  // namespace sparcl::model
