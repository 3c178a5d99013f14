// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/driver/gpu.h"

#include <charconv>
#include <cstdlib>

#include "device/cuda/driver/library.h"
#include "support/error.h"
#include "support/host_memory.h"
#include "support/text.h"

namespace thunder {

namespace {

// The driver's interface, as cuda.h declares it.
using CUresult = int;
using CUdevice = int;
constexpr CUresult success = 0, error_no_device = 100;
constexpr int attribute_multiprocessors = 16, attribute_major = 75, attribute_minor = 76;

std::string version_text(int version) {
    return cat(version / 1000, ".", version % 1000 / 10);
}

std::string architecture_list(std::string_view architectures) {
    std::string out;
    while (!architectures.empty()) {
        const std::size_t end = std::min(architectures.find_first_of(";,"), architectures.size());
        const std::string_view entry = architectures.substr(0, end);
        out += cat(out.empty() ? "" : ", ", "sm_", entry.substr(0, entry.find('-')));
        architectures.remove_prefix(std::min(end + 1, architectures.size()));
    }
    return out;
}

bool entry_runs_on(std::string_view entry, int gpu) {
    const bool real = entry.find("-virtual") == std::string_view::npos;
    const bool virtual_too = entry.find("-real") == std::string_view::npos;
    entry = entry.substr(0, entry.find('-'));
    int number = 0;
    const char* const last = entry.data() + entry.size();
    const auto [end, error] = std::from_chars(entry.data(), last, number);
    if (error != std::errc()) return false;
    const char feature = end == last ? ' ' : *end;
    if (feature == 'a') return gpu == number;
    if (feature == 'f') return gpu / 10 == number / 10 && gpu >= number;
    return (real && gpu / 10 == number / 10 && gpu >= number) || (virtual_too && gpu >= number);
}

}  // namespace

bool runs_on(std::string_view architectures, int gpu) {
    while (!architectures.empty()) {
        const std::size_t end = std::min(architectures.find_first_of(";,"), architectures.size());
        if (entry_runs_on(architectures.substr(0, end), gpu)) return true;
        architectures.remove_prefix(std::min(end + 1, architectures.size()));
    }
    return false;
}

Gpu find_gpu(const CudaBuild& build) {
    const char* const for_cpus = "on a machine without a GPU, build the program for the CPU: cmake -DDEVICE=cpu";
    const Library driver("the driver of an NVIDIA GPU", {"libcuda.so.1"}, for_cpus);
    const auto error_name = [&](CUresult result) {
        const char* name = nullptr;
        driver.function<CUresult(CUresult, const char**)>("cuGetErrorName")(result, &name);
        return name == nullptr ? cat("error ", result) : std::string(name);
    };
    const auto check = [&](CUresult result, const char* call) {
        if (result != success)
            fail(cat("the GPU's driver fails: ", call, " says ", error_name(result)),
                 "nvidia-smi shows whether the driver and the GPU work");
    };

    Gpu gpu;
    check(driver.function<CUresult(int*)>("cuDriverGetVersion")(&gpu.driver), "cuDriverGetVersion");
    // Within a major version of CUDA every driver runs what every toolkit makes.
    if (gpu.driver / 1000 < build.version / 1000) {
        fail(cat("the GPU's driver is too old: it knows CUDA up to ", version_text(gpu.driver),
                 ", and the program was built with CUDA ", version_text(build.version)),
             cat("install a newer driver, or build the program with a toolkit of CUDA ", gpu.driver / 1000));
    }
    if (const CUresult result = driver.function<CUresult(unsigned)>("cuInit")(0); result == error_no_device) {
        const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
        fail(visible == nullptr ? std::string("the driver sees no GPU")
                                : cat("the driver sees no GPU, with CUDA_VISIBLE_DEVICES=", visible),
             for_cpus);
    } else {
        check(result, "cuInit");
    }
    CUdevice device = 0;
    check(driver.function<CUresult(CUdevice*, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
    char name[256] = {};
    check(driver.function<CUresult(char*, int, CUdevice)>("cuDeviceGetName")(name, sizeof name - 1, device),
          "cuDeviceGetName");
    gpu.name = name;
    check(driver.function<CUresult(std::size_t*, CUdevice)>("cuDeviceTotalMem_v2")(&gpu.memory, device),
          "cuDeviceTotalMem");
    const auto attribute = [&](int which) {
        int value = 0;
        check(driver.function<CUresult(int*, int, CUdevice)>("cuDeviceGetAttribute")(&value, which, device),
              "cuDeviceGetAttribute");
        return value;
    };
    gpu.architecture = 10 * attribute(attribute_major) + attribute(attribute_minor);
    gpu.multiprocessors = attribute(attribute_multiprocessors);
    if (!runs_on(build.architectures, gpu.architecture)) {
        fail(cat("the program was built for ", architecture_list(build.architectures), ", and ", gpu.name, " is sm_",
                 gpu.architecture),
             cat("build it with -DCMAKE_CUDA_ARCHITECTURES=", gpu.architecture, gpu.architecture == 90 ? "a" : ""));
    }
    return gpu;
}

void check_memory(const Gpu& gpu, std::size_t bytes, std::size_t free, const std::string& plan,
                  const std::string& help) {
    if (bytes <= free) return;
    const std::string has =
        free < gpu.memory ? cat(bytes_text(free), " free of ", bytes_text(gpu.memory)) : bytes_text(gpu.memory);
    fail(cat("the program wants ", bytes_text(bytes), ", and ", gpu.name, " has ", has, ": ", plan), help);
}

Roof roof_of(std::string_view name) {
    struct Known {
        std::string_view part;  // of the name
        Roof roof;
    };
    // Data sheets of NVIDIA; what is longer stands first.
    constexpr Known known[] = {{"B300", {8.0e12, 2250e12, 1100e12, 80e12}},
                               {"B200", {8.0e12, 2250e12, 1100e12, 80e12}},
                               {"GH200", {4.0e12, 989.4e12, 494.7e12, 66.9e12}},
                               {"H200", {4.8e12, 989.4e12, 494.7e12, 66.9e12}},
                               {"H100 PCIe", {2.0e12, 756e12, 378e12, 51.2e12}},
                               {"H100 NVL", {3.9e12, 835e12, 417e12, 60e12}},
                               {"H100", {3.35e12, 989.4e12, 494.7e12, 66.9e12}},
                               {"A100-SXM4-80GB", {2.039e12, 312e12, 156e12, 19.5e12}},
                               {"A100-PCIE-40GB", {1.555e12, 312e12, 156e12, 19.5e12}},
                               {"A100", {1.935e12, 312e12, 156e12, 19.5e12}},
                               {"L40S", {0.864e12, 362e12, 183e12, 91.6e12}},
                               {"RTX 4090", {1.008e12, 165.2e12, 82.6e12, 82.6e12}},
                               {"RTX 5090", {1.792e12, 209.5e12, 104.8e12, 104.8e12}}};
    for (const Known& entry : known)
        if (name.find(entry.part) != std::string_view::npos) return entry.roof;
    return {};
}

}  // namespace thunder
