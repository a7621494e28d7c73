#pragma once
// A model of bf16 weights in memory that lives on when its process is killed, as weights in
// /dev/shm do.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

#include "sparcl/sparcl.h"

namespace sparcl::test {

class ChangingModel {
 public:
  // path: of the file that holds the weights; made, as zeros, where it is not there.
  ChangingModel(const std::string& path, std::uint64_t elements) : elements_(elements) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes())) != 0) return;
    void* mapped = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (mapped == MAP_FAILED) return;
    weights_ = static_cast<std::uint16_t*>(mapped);
    const std::uint64_t half = elements / 2;
    const std::uint64_t first[1] = {half}, rest[1] = {elements - half};
    if (sparclStateCreate(&state_) != sparclSuccess) return;
    sparclStateAdd(state_, "layers.0.weight", weights_, sparclBfloat16, 1, first);
    sparclStateAdd(state_, "layers.1.weight", weights_ + half, sparclBfloat16, 1, rest);
  }
  ~ChangingModel() {
    sparclStateDestroy(state_);
    if (weights_ != nullptr) ::munmap(weights_, bytes());
  }
  ChangingModel(const ChangingModel&) = delete;
  ChangingModel& operator=(const ChangingModel&) = delete;

  bool is_there() const { return state_ != nullptr; }
  sparclState_t state() const { return state_; }

  // A step of training: some weights by a place in their last bits, as RL steps do.
  void step(std::mt19937_64& random, double density) {
    const auto changes = static_cast<std::uint64_t>(density * static_cast<double>(elements_));
    for (std::uint64_t i = 0; i < changes; ++i) {
      const std::uint64_t draw = random();
      weights_[(draw >> 8) % elements_] =
          static_cast<std::uint16_t>(weights_[(draw >> 8) % elements_] + 1 + (draw & 1));
    }
  }

  // Of all that the tensors hold.
  std::string hash() const {
    std::uint8_t hash[16];
    if (sparclStateHash(state_, hash) != sparclSuccess) return "none";
    std::string text;
    char digits[3];
    for (const std::uint8_t each : hash) {
      std::snprintf(digits, sizeof digits, "%02x", each);
      text += digits;
    }
    return text;
  }

 private:
  std::size_t bytes() const { return elements_ * sizeof(std::uint16_t); }

  std::uint64_t elements_;
  std::uint16_t* weights_ = nullptr;
  sparclState_t state_ = nullptr;
};

}  // namespace sparcl::test
