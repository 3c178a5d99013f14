# SPDX-License-Identifier: Apache-2.0
# Finds oneDNN 3 for CPUs with OpenMP and defines OneDNN::OneDNN.
#
# ONEDNN_ROOT (variable or environment) may be a prefix, a Python site-packages or environment folder, or a folder into
# which the wheels onednn-cpu-gomp and onednn-devel-cpu-gomp were unpacked; CMAKE_PREFIX_PATH works as ever. Headers and
# library may lie under different prefixes, as they do in wheels. Neither a package nor a config file is needed.

set(_onednn_roots)
foreach(_root IN LISTS ONEDNN_ROOT CMAKE_PREFIX_PATH)
    list(APPEND _onednn_roots "${_root}")
endforeach()
if(DEFINED ENV{ONEDNN_ROOT})
    list(APPEND _onednn_roots "$ENV{ONEDNN_ROOT}")
endif()
# Where thunderc's scripts/install_dependencies.sh puts it.
foreach(_root "$ENV{THUNDERC_DEPS}/onednn" "$ENV{HOME}/.local/share/thunderc/onednn")
    if(IS_DIRECTORY "${_root}")
        list(APPEND _onednn_roots "${_root}")
    endif()
endforeach()
set(_onednn_hints)
foreach(_root IN LISTS _onednn_roots)
    file(GLOB _wheels LIST_DIRECTORIES true "${_root}/onednn*.data/data")
    list(APPEND _onednn_hints "${_root}" ${_wheels})
endforeach()

find_path(OneDNN_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h HINTS ${_onednn_hints} PATH_SUFFIXES include)
find_library(OneDNN_LIBRARY NAMES dnnl HINTS ${_onednn_hints} PATH_SUFFIXES lib lib64)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)

if(OneDNN_INCLUDE_DIR)
    foreach(_part MAJOR MINOR PATCH)
        file(STRINGS "${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" _line REGEX "#define DNNL_VERSION_${_part} [0-9]+")
        string(REGEX REPLACE ".* " "" _onednn_${_part} "${_line}")
    endforeach()
    set(OneDNN_VERSION "${_onednn_MAJOR}.${_onednn_MINOR}.${_onednn_PATCH}")
    # The library must share its threads with the program: a build for SYCL or TBB brings a second pool.
    file(STRINGS "${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h" _runtime REGEX "#define DNNL_CPU_THREADING_RUNTIME ")
    if(NOT _runtime MATCHES "DNNL_RUNTIME_OMP")
        set(OneDNN_NOT_FOUND_MESSAGE "${OneDNN_INCLUDE_DIR} is not a build for OpenMP")
        set(OneDNN_INCLUDE_DIR "OneDNN_INCLUDE_DIR-NOTFOUND")
    endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR VERSION_VAR OneDNN_VERSION)

if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
    add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
    set_target_properties(OneDNN::OneDNN PROPERTIES
        IMPORTED_LOCATION "${OneDNN_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}")
endif()
