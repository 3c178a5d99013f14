# SPDX-License-Identifier: Apache-2.0
# What a build for GPUs needs: the compiler, and the vendor's libraries where people have them: the toolkit, packages of the system,
# Python wheels (nvidia-cublas, nvidia-cudnn, nvidia-cudnn-frontend; nvidia-cuda-nvcc with the compiler). Of the libraries only headers
# are needed here; they are opened when the program runs.
#
#   CMAKE_CUDA_ARCHITECTURES   what kernels are compiled for: 90a, "80;90a"; default: this machine's GPU, without one 80 and 90a
#   CMAKE_CUDA_COMPILER        nvcc
#   THUNDER_CUDNN=ON|OFF       attention and convolutions by cuDNN; default: where its headers and those of its frontend are found

# Folders of Python wheels: .../site-packages/nvidia/cu13, .../site-packages/nvidia/cudnn, .../site-packages
function(thunder_python_folders _out)
    set(_folders)
    find_program(THUNDER_PYTHON NAMES python3 python DOC "whose wheels are looked at for NVIDIA's libraries")
    if(THUNDER_PYTHON)
        execute_process(COMMAND "${THUNDER_PYTHON}" -c "import sys; print(';'.join(p for p in sys.path if p.endswith('-packages')))"
                        OUTPUT_VARIABLE _sites OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        foreach(_site IN LISTS _sites)
            file(GLOB _found LIST_DIRECTORIES true "${_site}/nvidia/*")
            list(APPEND _folders ${_found} "${_site}")
        endforeach()
    endif()
    set(${_out} "${_folders}" PARENT_SCOPE)
endfunction()

# Sets CUDACXX for enable_language(CUDA), and THUNDER_NVCC.
macro(thunder_find_nvcc)
    thunder_python_folders(_thunder_wheels)
    if(CMAKE_CUDA_COMPILER)
        set(THUNDER_NVCC "${CMAKE_CUDA_COMPILER}")
    else()
        find_program(THUNDER_NVCC nvcc HINTS "$ENV{CUDACXX}" "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" /usr/local/cuda ${_thunder_wheels}
                     PATH_SUFFIXES bin)
    endif()
endmacro()

# Whether a GPU's driver is on this machine: a toolkit alone makes programs that cannot run here.
macro(thunder_find_gpu)
    set(THUNDER_GPU FALSE)
    if(EXISTS /dev/nvidiactl OR EXISTS /dev/dxg)
        set(THUNDER_GPU TRUE)
    endif()
endmacro()

# enable_language(CUDA), with architectures chosen.
macro(thunder_enable_cuda)
    thunder_find_nvcc()
    if(NOT THUNDER_NVCC)
        message(FATAL_ERROR "DEVICE=cuda needs NVIDIA's compiler, and nvcc was not found: install the CUDA toolkit, or name it with "
                            "-DCMAKE_CUDA_COMPILER=; -DDEVICE=cpu builds for the CPU")
    endif()
    if(NOT CMAKE_CUDA_COMPILER)
        set(CMAKE_CUDA_COMPILER "${THUNDER_NVCC}" CACHE FILEPATH "nvcc")
    endif()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
        execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE _thunder_capability
                        ERROR_QUIET RESULT_VARIABLE _thunder_smi)
        set(CMAKE_CUDA_ARCHITECTURES "80;90a")
        if(_thunder_smi EQUAL 0 AND _thunder_capability MATCHES "^([0-9]+)\\.([0-9])")
            set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
            if(CMAKE_MATCH_1 GREATER_EQUAL 9)  # with what only this architecture has
                string(APPEND CMAKE_CUDA_ARCHITECTURES a)
            endif()
        endif()
        set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE STRING "what kernels are compiled for")
    endif()
    set(CMAKE_CUDA_FLAGS_RELEASE "-O3" CACHE STRING "")
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and later have it
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
        set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
endmacro()

# THUNDER_CUDA_INCLUDES, THUNDER_CUDA_LIBRARY_FOLDERS (where libraries are opened that the system does not find), THUNDER_CUDNN_FOUND.
function(thunder_find_cuda_libraries)
    thunder_python_folders(_wheels)
    get_filename_component(_toolkit "${CMAKE_CUDA_COMPILER}" DIRECTORY)
    get_filename_component(_toolkit "${_toolkit}/.." ABSOLUTE)
    set(_roots "${_toolkit}" "${_toolkit}/targets/x86_64-linux" /usr/local/cuda /usr /usr/local ${_wheels})
    find_path(CUDART_INCLUDE_DIR cuda_runtime_api.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${_roots} PATH_SUFFIXES include)
    find_path(CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${_roots} PATH_SUFFIXES include)
    if(NOT CUDART_INCLUDE_DIR)
        message(FATAL_ERROR "cuda_runtime_api.h was not found: install the CUDA toolkit, or the wheel nvidia-cuda-runtime, or name the "
                            "folder with -DCUDART_INCLUDE_DIR=")
    endif()
    if(NOT CUBLASLT_INCLUDE_DIR)
        message(FATAL_ERROR "cublasLt.h was not found, which products need: install the package libcublas-dev, or the wheel nvidia-cublas, "
                            "or name the folder with -DCUBLASLT_INCLUDE_DIR=")
    endif()
    set(_includes "${CUDART_INCLUDE_DIR}" "${CUBLASLT_INCLUDE_DIR}")
    find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${_roots} PATH_SUFFIXES include)
    find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${_roots} PATH_SUFFIXES include)
    set(_found OFF)
    if(CUDNN_INCLUDE_DIR AND CUDNN_FRONTEND_INCLUDE_DIR)
        set(_found ON)
    endif()
    if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/device/cuda/cudnn")
        if(NOT DEFINED THUNDER_CUDNN AND NOT _found)
            message(WARNING "attention and convolutions are computed by the program's own kernels, which are many times slower than "
                            "cuDNN's: cuDNN's headers or those of its frontend were not found (packages libcudnn9-dev-cuda and libcudnn-frontend-dev, wheels "
                            "nvidia-cudnn and nvidia-cudnn-frontend; CUDNN_INCLUDE_DIR, CUDNN_FRONTEND_INCLUDE_DIR)")
        endif()
        if(THUNDER_CUDNN AND NOT _found)
            message(FATAL_ERROR "THUNDER_CUDNN is ON, and cuDNN's headers were not found: set CUDNN_INCLUDE_DIR (cudnn.h) and "
                                "CUDNN_FRONTEND_INCLUDE_DIR (cudnn_frontend.h)")
        endif()
    endif()
    option(THUNDER_CUDNN "attention and convolutions by cuDNN" ${_found})
    if(THUNDER_CUDNN)
        list(APPEND _includes "${CUDNN_INCLUDE_DIR}" "${CUDNN_FRONTEND_INCLUDE_DIR}")
    endif()
    list(REMOVE_DUPLICATES _includes)
    # Libraries by their names with a version, as wheels have them.
    set(_folders)
    foreach(_library cublasLt cudnn cudart nccl)
        foreach(_root IN LISTS _roots)
            foreach(_sub lib64 lib lib/x86_64-linux-gnu lib/aarch64-linux-gnu)
                file(GLOB _files "${_root}/${_sub}/lib${_library}.so.*")
                if(_files)
                    list(APPEND _folders "${_root}/${_sub}")
                endif()
            endforeach()
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES _folders)
    string(REPLACE ";" ":" _folders "${_folders}")
    set(THUNDER_CUDA_INCLUDES "${_includes}" PARENT_SCOPE)
    set(THUNDER_CUDA_LIBRARY_FOLDERS "${_folders}" PARENT_SCOPE)
endfunction()
