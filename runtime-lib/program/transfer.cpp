// SPDX-License-Identifier: Apache-2.0
#include "program/transfer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "device/api.h"
#include "device/stream.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::size_t portion = std::size_t{4} << 20;  // bytes on the host at a time

// The first of n elements that is infinite or no number: all bits of its exponent are set. n where there is none.
template <typename Bits>
std::size_t first_not_finite(const std::byte* data, std::size_t n, Bits exponent) {
    for (std::size_t i = 0; i < n; ++i) {
        Bits bits = 0;
        std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
        if ((bits & exponent) == exponent) return i;
    }
    return n;
}
std::size_t first_not_finite(const std::byte* data, std::size_t n, DType dtype) {
    if (dtype == DType::f32) return first_not_finite(data, n, std::uint32_t{0x7f800000});
    std::size_t first = n;
    with_narrow(dtype, [&]<typename T>(T*) {
        constexpr int fraction = dtype_digits[static_cast<std::size_t>(dtype_of<T>::value)] - 1;
        first = first_not_finite(data, n, static_cast<std::uint16_t>(0x7fffU >> fraction << fraction));
    });
    return first;
}

}  // namespace

void to_device(std::byte* device, const void* host, std::size_t bytes, Stream& stream) {
    if (bytes == 0) return;
    copy(device, host, bytes, stream);
    stream.synchronize();
}

void from_device(void* host, const std::byte* device, std::size_t bytes, Stream& stream) {
    if (bytes == 0) return;
    copy(host, device, bytes, stream);
    stream.synchronize();
}

void fill_on_device(std::byte* device, DType dtype, std::size_t count, Stream& stream,
                    const std::function<void(std::size_t first, std::size_t n, std::byte* out)>& make) {
    const std::size_t width = size_of(dtype), at_once = portion / width;
    std::vector<std::byte> host(std::min(count, at_once) * width);
    for (std::size_t first = 0; first < count; first += at_once) {
        const std::size_t n = std::min(at_once, count - first);
        make(first, n, host.data());
        to_device(device + first * width, host.data(), n * width, stream);
    }
}

void load_tensor(const TensorFile& file, const StoredTensor& tensor, DType dtype, std::byte* device, Stream& stream) {
    fill_on_device(device, dtype, tensor.elements(), stream, [&](std::size_t first, std::size_t n, std::byte* out) {
        read_elements(tensor, dtype, first, n, out);
    });
    file.release(tensor);
}

void load_elements(const TensorFile& file, const StoredTensor& tensor, DType dtype, std::size_t first,
                   std::size_t count, std::byte* device, Stream& stream) {
    fill_on_device(device, dtype, count, stream, [&](std::size_t done, std::size_t n, std::byte* out) {
        read_elements(tensor, dtype, first + done, n, out);
        if (const std::size_t bad = first_not_finite(out, n, dtype); bad < n)
            throw DamagedFile(
                cat(file.path(), ": element ", first + done + bad, " of ", tensor.name, " is infinite or no number"),
                "the run that wrote the file had diverged, or the file is damaged: take an earlier one");
    });
    file.release(tensor);
}

void save_tensors(const std::string& path, std::span<const DeviceTensor> tensors,
                  std::span<const std::pair<std::string, std::string>> metadata, Stream& stream) {
    std::vector<TensorToWrite> announced;
    for (const DeviceTensor& tensor : tensors) announced.push_back(tensor.as);
    SafetensorsWriter writer(path, announced, metadata);
    std::vector<std::byte> host(portion);
    for (const DeviceTensor& tensor : tensors) {
        std::size_t bytes = size_of(tensor.as.dtype);
        for (const std::int64_t extent : tensor.as.shape) bytes *= static_cast<std::size_t>(extent);
        for (std::size_t begin = 0; begin < bytes; begin += portion) {
            const std::size_t n = std::min(portion, bytes - begin);
            from_device(host.data(), tensor.device + begin, n, stream);
            writer.append(host.data(), n);
        }
    }
    writer.commit();
}

}  // namespace thunder
