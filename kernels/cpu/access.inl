// Part of cpu_kernels.cpp, compiled once for each instruction set. Gathers of 16 bits have no instruction, and for 32 and 64 bits scalar loads
// are as fast on the machines measured: plain loops.

template <class T>
void gather(const std::byte* array, const std::uint16_t* positions, std::size_t count, std::uint32_t first, std::byte* values) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(values + i * sizeof(T), array + (positions[i] - first) * sizeof(T), sizeof(T));
  }
}

template <class T>
void scatter(std::byte* array, const std::uint16_t* positions, std::size_t count, std::uint32_t first, const std::byte* values) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(array + (positions[i] - first) * sizeof(T), values + i * sizeof(T), sizeof(T));
  }
}

template <class T>
void prefetch_read(const std::byte* array, const std::uint16_t* positions, std::size_t count, std::uint32_t first) {
  for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(array + (positions[i] - first) * sizeof(T), 0);
}

template <class T>
void prefetch_write(const std::byte* array, const std::uint16_t* positions, std::size_t count, std::uint32_t first) {
  for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(array + (positions[i] - first) * sizeof(T), 1);
}
