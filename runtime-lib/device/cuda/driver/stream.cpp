// SPDX-License-Identifier: Apache-2.0
// The device, memory, streams, events and graphs of CUDA.
#include "device/stream.h"

#include <cstring>
#include <utility>

#include "device/call_observer.h"
#include "device/check_cpu.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/driver/native.h"
#include "device/cuda/gemm/cublaslt.h"
#include "device/stream_observer.h"
#include "device/team.h"
#include "support/error.h"
#include "support/host_memory.h"
#include "support/text.h"

#if __has_include("device/cuda/attention/attention.h")  // where the program has attention
#include "device/cuda/attention/attention.h"
#define THUNDER_ATTENTION
#endif
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define THUNDER_NVTX
#endif

#ifndef THUNDER_CUDA_ARCHITECTURES
#error "THUNDER_CUDA_ARCHITECTURES says what the kernels are compiled for"
#endif

namespace thunder {

void check(cudaError_t result, const char* call) {
    if (result == cudaSuccess) return;
    // What a kernel did wrong is told by whichever call comes next.
    const bool late = result == cudaErrorIllegalAddress || result == cudaErrorLaunchFailure ||
                      result == cudaErrorAssert || result == cudaErrorMisalignedAddress ||
                      result == cudaErrorIllegalInstruction || result == cudaErrorHardwareStackError;
    fail(cat("the GPU fails: ", call, " says ", cudaGetErrorName(result), ", ", cudaGetErrorString(result)),
         late ? "with CUDA_LAUNCH_BLOCKING=1 and --no-cuda-graph the message names the call that did it" : "");
}

cudaStream_t stream_of(Stream& stream) {
    Stream::Native& native = *stream.native();
    if (native.stream == nullptr) {
        stream.device().native()->open();
        int behind = 0, ahead = 0;
        check(cudaDeviceGetStreamPriorityRange(&behind, &ahead), "cudaDeviceGetStreamPriorityRange");
        check(cudaStreamCreateWithPriority(&native.stream, cudaStreamNonBlocking, native.behind ? behind : ahead),
              "cudaStreamCreate");
    }
    return native.stream;
}

// ---- memory --------------------------------------------------------------------------------------------------------

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

// What the last failure left behind is no news when memory goes back.
Memory::~Memory() {
    if (data_ == nullptr) return;
    if (mapped_ > 0) {
        cudaFreeHost(data_);
    } else {
        cudaFree(data_);
    }
}

Memory Device::allocate(std::size_t bytes) {
    Memory memory;
    if (bytes == 0) return memory;
    native_->open();
    void* data = nullptr;
    if (const cudaError_t result = cudaMalloc(&data, bytes); result == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        std::size_t free = 0, total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        fail(cat(native_->gpu.name, " has no room for ", bytes_text(bytes), " more: ", bytes_text(free), " free of ",
                 bytes_text(total), native_->plan.empty() ? "" : "; planned: ", native_->plan),
             less_memory());
    } else {
        check(result, "cudaMalloc");
    }
    memory.data_ = static_cast<std::byte*>(data);
    memory.bytes_ = bytes;
    check(cudaMemset(data, 0, bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaMemset");
    return memory;
}

Memory Device::allocate_staging(std::size_t bytes) {
    Memory memory;
    if (bytes == 0) return memory;
    native_->open();
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    std::memset(data, 0, bytes);
    memory.data_ = static_cast<std::byte*>(data);
    memory.bytes_ = memory.mapped_ = bytes;
    return memory;
}

// ---- the device ----------------------------------------------------------------------------------------------------

Device::Device(const DeviceOptions& options)
    : threads_(options.threads > 0 ? options.threads : default_team_size()), options_(options) {
    check_cpu();
    set_team_size(threads_);
    auto native = std::make_unique<Native>();
    native->gpu = find_gpu({CUDART_VERSION, THUNDER_CUDA_ARCHITECTURES});
    auto profiler = options_.profile ? std::make_unique<EventProfiler>(roof_of(native->gpu.name)) : nullptr;
    native_ = native.release();
    profiler_ = profiler.release();
    observe(nullptr);
}

Device::Device(int threads)
    : Device([&] {
          DeviceOptions options;
          options.threads = threads;
          return options;
      }()) {}

Device::~Device() {
    delete profiler_;
    delete native_;
}

void Device::Native::open() {
    if (opened) return;
    check(cudaSetDevice(0), "cudaSetDevice");
    opened = true;
}

void Device::check_room(std::size_t bytes, const std::string& plan, const std::string& help) {
    const std::size_t wanted = bytes + product_workspace_bytes;
    native_->plan = plan;
    check_memory(native_->gpu, wanted, native_->gpu.memory, plan, help);
    native_->open();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    check_memory(native_->gpu, wanted, free, plan, help);
}

bool Device::is_gpu() const {
    return true;
}

int Device::multiprocessors() const {
    return native_->gpu.multiprocessors;
}

std::string Device::describe() const {
    return cat(native_->gpu.name, " (sm_", native_->gpu.architecture, ", ", bytes_text(native_->gpu.memory), ")");
}

std::string Device::describe_products() const {
    return cat(cublaslt_version(), options_.tf32 ? ", TF32" : "");
}

std::string Device::describe_products_of(DType) const {
    return "products of the GPU's tensor cores, sums in f32";
}

double Device::peak_flops(DType products) const {
    const Roof roof = roof_of(native_->gpu.name);
    return is_narrow(products) ? roof.narrow_flops : options_.tf32 ? roof.tf32_flops : roof.f32_flops;
}

std::string Device::describe_attention() const {
#ifdef THUNDER_ATTENTION
    return attention_provider();
#else
    return "";
#endif
}

// ---- streams and events --------------------------------------------------------------------------------------------

StreamObserver* stream_observer = nullptr;

// A GPU's streams are disturbed by a call of the host within them: with --chaos.
static void CUDART_CB disturb(void*) {
    stream_observer->order();
}

Stream::Stream(Device& device, Turn turn) : device_(device), native_(new Native) {
    native_->behind = turn == Turn::behind;
}

Stream::~Stream() {
    if (native_->stream != nullptr) cudaStreamSynchronize(native_->stream);
    delete products_;
    delete convolutions_;
    cudaStream_t stream = native_->stream;
    delete native_;
    if (stream != nullptr) cudaStreamDestroy(stream);
}

void Stream::record(Event& event) {
    if (event.native()->event == nullptr)
        check(cudaEventCreateWithFlags(&event.native()->event, cudaEventDisableTiming), "cudaEventCreate");
    if (stream_observer != nullptr) check(cudaLaunchHostFunc(stream_of(*this), disturb, nullptr), "cudaLaunchHostFunc");
    check(cudaEventRecord(event.native()->event, stream_of(*this)), "cudaEventRecord");
}

void Stream::wait(const Event& event) {
    if (event.native()->event != nullptr)
        check(cudaStreamWaitEvent(stream_of(*this), event.native()->event, 0), "cudaStreamWaitEvent");
}

void Stream::synchronize() {
    check(cudaStreamSynchronize(stream_of(*this)), "cudaStreamSynchronize");
}

std::byte* Stream::grow(Memory& memory, std::size_t bytes) {
    if (bytes > memory.bytes()) {
        cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;  // by another stream's graph, too
        check(cudaStreamIsCapturing(stream_of(*this), &capturing), "cudaStreamIsCapturing");
        if (native_->capturing || capturing != cudaStreamCaptureStatusNone)
            fail("a step asks for more workspace than it did the first time", "--no-cuda-graph goes on without graphs");
        // Work under way, and graphs, may still use the old one.
        if (memory.data() != nullptr) {
            if (device_.native()->captured) {
                native_->retired.push_back(std::move(memory));
            } else {
                synchronize();
            }
        }
        memory = Memory();
        memory = device_.allocate(bytes);
    }
    return memory.data();
}

Event::Event() : native_(new Native) {}

Event::~Event() {
    if (native_->event != nullptr) cudaEventDestroy(native_->event);
    delete native_;
}

bool Event::is_complete() const {
    if (native_->event == nullptr) return true;
    const cudaError_t result = cudaEventQuery(native_->event);
    if (result == cudaErrorNotReady) return false;
    check(result, "cudaEventQuery");
    return true;
}

void Event::synchronize() const {
    if (native_->event != nullptr) check(cudaEventSynchronize(native_->event), "cudaEventSynchronize");
}

// ---- graphs --------------------------------------------------------------------------------------------------------

struct Graph::Native {
    int runs = 0;
    cudaGraphExec_t executable = nullptr;
};

Graph::Graph() : native_(new Native) {}

Graph::~Graph() {
    if (native_->executable != nullptr) cudaGraphExecDestroy(native_->executable);
    delete native_;
}

// Whoever looks on at calls sees them when they are issued.
bool Graph::replay(Stream& stream) {
    if (native_->executable == nullptr || stream.device().observer() != nullptr) return false;
    check(cudaGraphLaunch(native_->executable, stream_of(stream)), "cudaGraphLaunch");
    return true;
}

bool Graph::begin(Stream& stream) {
    const DeviceOptions& options = stream.device().options();
    if (!options.graphs || stream.device().observer() != nullptr || native_->runs++ == 0) return false;
    check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    stream.native()->capturing = true;
    return true;
}

void Graph::end(Stream& stream) {
    stream.native()->capturing = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_of(stream), &graph), "cudaStreamEndCapture");
    // Kernels of a stream that runs behind are behind in the graph as well.
    const cudaError_t result =
        cudaGraphInstantiate(&native_->executable, graph, cudaGraphInstantiateFlagUseNodePriority);
    cudaGraphDestroy(graph);
    check(result, "cudaGraphInstantiate");
    stream.device().native()->captured = true;
    replay(stream);
}

// ---- names for profilers -------------------------------------------------------------------------------------------

Range::Range([[maybe_unused]] const char* name) {
#ifdef THUNDER_NVTX
    nvtxRangePushA(name);
#endif
    if (range_observer != nullptr) range_observer->begin_range(name);
}
Range::~Range() {
    if (range_observer != nullptr) range_observer->end_range();
#ifdef THUNDER_NVTX
    nvtxRangePop();
#endif
}

}  // namespace thunder
