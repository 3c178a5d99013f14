// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>

#include "device/cuda/driver/library.h"
#include "device/cuda/driver/native.h"
#include "device/cuda/gemm/plan_file.h"
#include "device/cuda/gemm/product_key.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

// The library's functions that are used here.
struct CublasLt {
    CublasLt()
        : library("cuBLASLt", {cat("libcublasLt.so.", CUBLAS_VER_MAJOR)},
                  cat("it comes with the CUDA toolkit, as the package libcublas-", CUBLAS_VER_MAJOR,
                      "-0 or as the Python wheel nvidia-cublas; LD_LIBRARY_PATH may name its folder")) {}

    Library library;
#define THUNDER_FUNCTION(name) decltype(::name)* name = library.function<decltype(::name)>(#name)
    THUNDER_FUNCTION(cublasLtCreate);
    THUNDER_FUNCTION(cublasLtDestroy);
    THUNDER_FUNCTION(cublasLtGetVersion);
    THUNDER_FUNCTION(cublasLtGetStatusName);
    THUNDER_FUNCTION(cublasLtMatmul);
    THUNDER_FUNCTION(cublasLtMatmulAlgoCheck);
    THUNDER_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
    THUNDER_FUNCTION(cublasLtMatmulDescCreate);
    THUNDER_FUNCTION(cublasLtMatmulDescDestroy);
    THUNDER_FUNCTION(cublasLtMatmulDescSetAttribute);
    THUNDER_FUNCTION(cublasLtMatrixLayoutCreate);
    THUNDER_FUNCTION(cublasLtMatrixLayoutDestroy);
    THUNDER_FUNCTION(cublasLtMatrixLayoutSetAttribute);
    THUNDER_FUNCTION(cublasLtMatmulPreferenceCreate);
    THUNDER_FUNCTION(cublasLtMatmulPreferenceDestroy);
    THUNDER_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
#undef THUNDER_FUNCTION
};

const CublasLt& lt() {
    static const CublasLt functions;
    return functions;
}

using thunder::check;  // of CUDA itself
void check(cublasStatus_t status, const char* call) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    fail(cat(call, " says ", lt().cublasLtGetStatusName(status)));
}

cudaDataType_t type_of(DType dtype) {
    switch (dtype) {
        case DType::bf16: return CUDA_R_16BF;
        case DType::f16: return CUDA_R_16F;
        case DType::e4m3: return CUDA_R_8F_E4M3;
        case DType::e5m2: return CUDA_R_8F_E5M2;
        default: return CUDA_R_32F;
    }
}

// The library's objects, which are destroyed with this.
struct Plan {
    bool usable = false;
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm{};

    Plan() = default;
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan() {
        for (cublasLtMatrixLayout_t layout : {a, b, c, d})
            if (layout != nullptr) lt().cublasLtMatrixLayoutDestroy(layout);
        if (operation != nullptr) lt().cublasLtMatmulDescDestroy(operation);
    }
};

struct Cache : ProviderCache {
    Cache(Device& device) {
        check(lt().cublasLtCreate(&handle), "cublasLtCreate");
        workspace = device.allocate(product_workspace_bytes);
        if (device.options().autotune) {
            tuned.emplace(device.options().folder, device.native()->gpu.name,
                          cat("cuBLASLt ", lt().cublasLtGetVersion()));
        }
    }
    ~Cache() override {
        plans.clear();
        lt().cublasLtDestroy(handle);
    }
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    cublasLtHandle_t handle = nullptr;
    Memory workspace;
    std::unordered_map<ProductKey, Plan, HashOfKey> plans;
    std::optional<PlanFile> tuned;
};

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, T value, const char* what) {
    check(lt().cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), what);
}

// The epilogue that computes it, or nothing. cuBLASLt's GELU is the one with tanh.
std::optional<cublasLtEpilogue_t> epilogue_of(const Product& p) {
    const bool bias = static_cast<bool>(p.bias);
    if (p.pre_activation) {
        if (p.activation != Activation::gelu_tanh || p.addend) return std::nullopt;
        return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    }
    switch (p.activation) {
        case Activation::none: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
        case Activation::relu:
            if (p.addend) return std::nullopt;
            return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
        case Activation::gelu_tanh:
            if (p.addend) return std::nullopt;
            return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
        default: return std::nullopt;
    }
}

// A row-major (rows, columns) matrix is the column-major (columns, rows) one.
cublasLtMatrixLayout_t layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t batch,
                              std::int64_t stride) {
    cublasLtMatrixLayout_t made = nullptr;
    check(lt().cublasLtMatrixLayoutCreate(&made, type_of(dtype), static_cast<std::uint64_t>(columns),
                                          static_cast<std::uint64_t>(rows), ld),
          "cublasLtMatrixLayoutCreate");
    if (batch > 1) {
        const auto count = static_cast<std::int32_t>(batch);
        check(lt().cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
              "cublasLtMatrixLayoutSetAttribute");
        check(lt().cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                    sizeof stride),
              "cublasLtMatrixLayoutSetAttribute");
    }
    return made;
}

// Pointers that belong to a call and not to its plan.
void set_pointers(const Plan& plan, const Product& p) {
    if (p.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data, "cublasLtMatmulDescSetAttribute");
    if (p.pre_activation) {
        set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.pre_activation.data,
            "cublasLtMatmulDescSetAttribute");
    }
    // The library's first factor is b.
    if (p.scale_b)
        set(plan.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_b.data, "cublasLtMatmulDescSetAttribute");
    if (p.scale_a)
        set(plan.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_a.data, "cublasLtMatmulDescSetAttribute");
}

void execute(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Product& p, Cache& cache, Stream& stream) {
    set_pointers(plan, p);
    const float one = 1, zero = 0;
    const void* addend = p.addend ? p.addend.data : p.c.data;
    // c is column-major (n, m) = op(b)ᵀ op(a)ᵀ: b stands first
    check(lt().cublasLtMatmul(cache.handle, plan.operation, &one, p.b.data, plan.b, p.a.data, plan.a,
                              p.addend ? &one : &zero, addend, plan.c, p.c.data, plan.d, &algorithm,
                              cache.workspace.data(), cache.workspace.bytes(), stream_of(stream)),
          "cublasLtMatmul");
}

// Times what is issued between two points of a stream.
class Stopwatch {
  public:
    explicit Stopwatch(Stream& stream) : stream_(stream_of(stream)) {
        check(cudaEventCreate(&begin_), "cudaEventCreate");
        check(cudaEventCreate(&end_), "cudaEventCreate");
    }
    ~Stopwatch() {
        cudaEventDestroy(begin_);
        cudaEventDestroy(end_);
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    template <typename Issue>
    float milliseconds(Issue&& issue) {
        check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
        issue();
        check(cudaEventRecord(end_, stream_), "cudaEventRecord");
        check(cudaEventSynchronize(end_), "cudaEventSynchronize");
        float time = 0;
        check(cudaEventElapsedTime(&time, begin_, end_), "cudaEventElapsedTime");
        return time;
    }

  private:
    cudaStream_t stream_;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// The fastest of the candidates, on the tensors of this call, whose result is put back. A GPU's clock falls as it gets
// warm and rises when it has little to do: the best are tried in turns, and each is known by its middle one.
std::optional<std::size_t> fastest(const Plan& plan, std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                                   const Product& p, Cache& cache, Stream& stream) {
    const std::int64_t matrices = std::max<std::int64_t>(p.batch, 1);
    const std::size_t bytes =
        static_cast<std::size_t>((matrices - 1) * p.stride_c + (p.m - 1) * p.ld_c + p.n) * size_of(p.c.dtype);
    const Memory before = stream.device().allocate(bytes);
    copy(before.data(), p.c.data, bytes, stream);
    struct Timed {
        std::size_t candidate;
        std::vector<float> times;
        float middle() const {
            std::vector<float> sorted = times;
            std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
            return sorted[sorted.size() / 2];
        }
    };
    const auto faster = [](const Timed& a, const Timed& b) { return a.middle() < b.middle(); };
    std::vector<Timed> tried;
    Stopwatch watch(stream);
    const auto time = [&](Timed& t, int calls) {
        t.times.push_back(watch.milliseconds([&] {
            for (int k = 0; k < calls; ++k) execute(plan, candidates[t.candidate].algo, p, cache, stream);
        }) / static_cast<float>(calls));
    };
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        try {
            execute(plan, candidates[i].algo, p, cache, stream);  // the first one loads its code
            Timed t{i, {}};
            time(t, 3);
            tried.push_back(std::move(t));
        } catch (const Error&) {  // the library offers what it then does not take
        }
    }
    std::ranges::stable_sort(tried, faster);
    constexpr std::size_t finalists = 8;
    constexpr int rounds = 9;
    if (tried.size() > finalists) tried.erase(tried.begin() + finalists, tried.end());
    for (Timed& t : tried) t.times.clear();
    for (int round = 0; round < rounds; ++round)
        for (Timed& t : tried) time(t, 5);
    copy(p.c.data, before.data(), bytes, stream);
    stream.synchronize();
    if (tried.empty()) return std::nullopt;
    return std::ranges::min_element(tried, faster)->candidate;
}

void choose(Plan& plan, const ProductKey& key, const Product& p, Cache& cache, Stream& stream) {
    const bool plain = !p.bias && !p.pre_activation && p.activation == Activation::none && !is_quantised(p.a.dtype);
    if (cache.tuned) {
        if (const std::optional<std::vector<std::uint64_t>> known = cache.tuned->find(key.text());
            known && known->size() * sizeof(std::uint64_t) == sizeof plan.algorithm) {
            std::memcpy(&plan.algorithm, known->data(), sizeof plan.algorithm);
            plan.usable = true;
            return;
        }
    }
    cublasLtMatmulPreference_t preference = nullptr;
    check(lt().cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
        check(lt().cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{product_workspace_bytes});
    static_assert(sums_in_f32 == (CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    static_assert(sums_in_any == CUBLASLT_REDUCTION_SCHEME_MASK);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_schemes(p.c.dtype));
    const auto aligned = [&](cublasLtMatmulPreferenceAttributes_t attribute, const void* data) {
        prefer(attribute, std::uint32_t{1} << alignment_of(data));
    };
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.b.data);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.a.data);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.addend ? p.addend.data : p.c.data);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.c.data);
    // Of products of FP8 the library offers some that it then does not take: the first that it does.
    const bool may_be_refused = is_quantised(p.a.dtype);
    std::array<cublasLtMatmulHeuristicResult_t, 64> results{};
    const int wanted = cache.tuned ? static_cast<int>(results.size()) : may_be_refused ? 8 : 1;
    int count = 0;
    const cublasStatus_t status = lt().cublasLtMatmulAlgoGetHeuristic(
        cache.handle, plan.operation, plan.b, plan.a, plan.c, plan.d, preference, wanted, results.data(), &count);
    lt().cublasLtMatmulPreferenceDestroy(preference);
    if (may_be_refused) {
        const auto refused = [&](const cublasLtMatmulHeuristicResult_t& result) {
            cublasLtMatmulHeuristicResult_t checked{};
            return lt().cublasLtMatmulAlgoCheck(cache.handle, plan.operation, plan.b, plan.a, plan.c, plan.d,
                                                &result.algo, &checked) != CUBLAS_STATUS_SUCCESS;
        };
        count = static_cast<int>(std::remove_if(results.begin(), results.begin() + count, refused) - results.begin());
    }
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
        if (plain)
            check(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
                  "cublasLtMatmulAlgoGetHeuristic");
        return;  // the plain product and a kernel after it
    }
    std::size_t chosen = 0;
    if (cache.tuned) {
        const std::optional<std::size_t> found =
            fastest(plan, {results.data(), static_cast<std::size_t>(count)}, p, cache, stream);
        if (!found && may_be_refused) return;
        chosen = found.value_or(0);
        std::vector<std::uint64_t> words(sizeof plan.algorithm / sizeof(std::uint64_t));
        std::memcpy(words.data(), &results[chosen].algo, sizeof plan.algorithm);
        cache.tuned->add(key.text(), words);
    }
    plan.algorithm = results[chosen].algo;
    plan.usable = true;
}

void make_plan(Plan& plan, const ProductKey& key, const Product& p, Cache& cache, Stream& stream) {
    const std::optional<cublasLtEpilogue_t> epilogue = epilogue_of(p);
    if (!epilogue) return;
    const bool tf32 = p.a.dtype == DType::f32 && stream.device().options().tf32;
    check(lt().cublasLtMatmulDescCreate(&plan.operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                        CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const char* const setting = "cublasLtMatmulDescSetAttribute";
    set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, setting);
    set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, setting);
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, *epilogue, setting);
    if (key.left > 0)
        set(plan.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
            std::int32_t{stream.device().multiprocessors() - key.left}, setting);
    if (p.fast_sums) set(plan.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1}, setting);
    if (p.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias.dtype), setting);
    if (p.pre_activation) {
        set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n, setting);
        set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type_of(p.pre_activation.dtype), setting);
    }
    set_pointers(plan, p);
    plan.a = layout(p.a.dtype, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.ld_a, p.batch, p.stride_a);
    plan.b = layout(p.b.dtype, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ld_b, p.batch, p.stride_b);
    plan.c = layout(p.c.dtype, p.m, p.n, p.addend ? p.ld_addend : p.ld_c, p.batch, p.stride_c);
    plan.d = layout(p.c.dtype, p.m, p.n, p.ld_c, p.batch, p.stride_c);
    choose(plan, key, p, cache, stream);
}

}  // namespace

bool product(const Product& call, Stream& stream) {
    if (stream.products() == nullptr) stream.keep_products(new Cache(stream.device()));
    auto& cache = static_cast<Cache&>(*stream.products());
    if (call.a.dtype != call.b.dtype && !(is_quantised(call.a.dtype) && is_quantised(call.b.dtype)))
        fail("the factors of a product have different types");
    const ProductKey key = key_of(call, stream.device().options().tf32, stream.left());
    const auto [found, is_new] = cache.plans.try_emplace(key);
    if (is_new) make_plan(found->second, key, call, cache, stream);
    if (!found->second.usable) return false;
    execute(found->second, found->second.algorithm, call, cache, stream);
    return true;
}

std::string cublaslt_version() {
    const std::size_t version = lt().cublasLtGetVersion();
    return cat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace thunder
