#include "src/transport/mpi/request_table.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/transport/mpi/kept_for_good.hpp"
#include "src/transport/mpi/mpi_error.hpp"

namespace sparcl::transport {

RequestTable::~RequestTable() { abandon(); }

void RequestTable::make_place() {
  const auto grow = [](auto& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 16);
  };
  grow(requests_);
  grow(entries_);
}

void RequestTable::add(MPI_Request request, MpiOperationRef operation, Role role) noexcept {
  ++operation->open_requests;
  requests_.push_back(request);
  entries_.push_back({std::move(operation), role, false});
}

Status RequestTable::test(std::vector<Finished>& finished) {
  if (requests_.empty()) return {};
  const std::size_t first = next_ < requests_.size() ? next_ : 0;
  const std::size_t asked = std::min(kWindow, requests_.size() - first);
  make_room(asked);
  finished.reserve(finished.size() + asked);  // MPI gives each completion only once
  int count = 0;
  const int error = MPI_Testsome(static_cast<int>(asked), requests_.data() + first, &count,
                                 indices_.data(), statuses_.data());
  if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return mpi_status(error, "MPI_Testsome");
  if (count == MPI_UNDEFINED) count = 0;
  // Finished requests are replaced from the back, so that as many slots will hold requests that
  // were not asked for. The window moves by at least one slot: else a window in which all finish
  // each time would keep the others waiting.
  next_ = first + std::max<std::size_t>(asked - static_cast<std::size_t>(count), 1);
  if (count > 0) collect(first, count, error, finished);
  return {};
}

Status RequestTable::wait(std::vector<Finished>& finished, MPI_Request& other) {
  const std::size_t own = requests_.size();
  requests_.push_back(other);
  make_room(requests_.size());
  finished.reserve(finished.size() + requests_.size());
  int count = 0;
  const int error = MPI_Waitsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                 indices_.data(), statuses_.data());
  other = requests_.back();
  requests_.pop_back();
  if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return mpi_status(error, "MPI_Waitsome");
  if (count == MPI_UNDEFINED) return {};
  for (int i = 0; i < count; ++i) {
    if (indices_[static_cast<std::size_t>(i)] != static_cast<int>(own)) continue;
    --count;
    std::swap(indices_[static_cast<std::size_t>(i)], indices_[static_cast<std::size_t>(count)]);
    std::swap(statuses_[static_cast<std::size_t>(i)], statuses_[static_cast<std::size_t>(count)]);
    break;
  }
  collect(0, count, error, finished);
  return {};
}

void RequestTable::make_room(std::size_t requests) {
  if (indices_.size() >= requests) return;
  indices_.resize(2 * requests);
  statuses_.resize(2 * requests);
}

void RequestTable::collect(std::size_t first, int count, int error,
                           std::vector<Finished>& finished) {
  for (int i = 0; i < count; ++i) {
    const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    Entry& entry =
        entries_[first + static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    Finished& out = finished.emplace_back();
    out.role = entry.role;
    out.operation = std::move(entry.operation);
    --out.operation->open_requests;
    if (error == MPI_ERR_IN_STATUS) out.error = status.MPI_ERROR;
    if (entry.role == Role::kSend) continue;
    int withdrawn = 0;
    MPI_Test_cancelled(&status, &withdrawn);
    out.withdrawn = withdrawn != 0;
    int bytes = 0;
    if (out.error == MPI_SUCCESS && !out.withdrawn) MPI_Get_count(&status, MPI_BYTE, &bytes);
    out.bytes = static_cast<std::uint64_t>(std::max(bytes, 0));
  }
  // From the back, because the last entry fills each gap.
  std::sort(indices_.begin(), indices_.begin() + count, std::greater<>());
  for (int i = 0; i < count; ++i)
    remove(first + static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]));
}

void RequestTable::remove(std::size_t at) {
  // MPI may leave a request that ended in error to its owner.
  if (requests_[at] != MPI_REQUEST_NULL) MPI_Request_free(&requests_[at]);
  requests_[at] = requests_.back();
  entries_[at] = std::move(entries_.back());
  requests_.pop_back();
  entries_.pop_back();
}

// Sends are not cancelled: few MPI libraries can do it. Neither are bodies: their sender waits for
// them.
void RequestTable::cancel_head(const MpiOperation& operation) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].operation.get() == &operation) cancel_at(i);
  }
}

void RequestTable::cancel_heads() {
  for (std::size_t i = 0; i < entries_.size(); ++i) cancel_at(i);
}

// Once only: Open MPI 4.1 takes a cancelled receive out of its list a second time, and crashes.
void RequestTable::cancel_at(std::size_t at) {
  if (entries_[at].role != Role::kHead || std::exchange(entries_[at].is_cancelled, true)) return;
  MPI_Cancel(&requests_[at]);
}

void RequestTable::abandon() {
  keep_for_good(std::move(entries_));
  entries_.clear();
  requests_.clear();
}

}  // namespace sparcl::transport
