#include "program/transfer.h"

#include <algorithm>

#include "device/menu.h"
#include "device/stream.h"

namespace thunder {

namespace {

constexpr std::size_t portion = std::size_t{4} << 20;  // bytes on the host at a time

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

void load_tensor(const SafetensorsFile& file, const StoredTensor& tensor, DType dtype, std::byte* device,
                 Stream& stream) {
    load_elements(file, tensor, dtype, 0, tensor.elements(), device, stream);
}

void load_elements(const SafetensorsFile& file, const StoredTensor& tensor, DType dtype, std::size_t first,
                   std::size_t count, std::byte* device, Stream& stream) {
    fill_on_device(device, dtype, count, stream, [&](std::size_t done, std::size_t n, std::byte* out) {
        read_elements(tensor, dtype, first + done, n, out);
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
