# One static library per layer of src/, chamvi_<layer>. src/layers.txt says what a layer may include;
# its include path is a folder of links to just that, so that any other include does not compile.

set(layers_file ${PROJECT_SOURCE_DIR}/src/layers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${layers_file})
file(STRINGS ${layers_file} lines REGEX "^[a-z]")
set(CHAMVI_LAYERS)
foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z]+): *(.*)$" line "${line}")
    list(APPEND CHAMVI_LAYERS ${CMAKE_MATCH_1})
    string(REGEX REPLACE " +" ";" CHAMVI_MAY_INCLUDE_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()

# The include path of a layer; the folder is made anew, so that a withdrawn permission goes away.
function(chamvi_layer_folder layer result)
    set(folder ${PROJECT_BINARY_DIR}/layers/${layer})
    file(REMOVE_RECURSE ${folder})
    foreach(entry IN LISTS CHAMVI_MAY_INCLUDE_${layer})
        get_filename_component(parent ${folder}/${entry} DIRECTORY)
        file(MAKE_DIRECTORY ${parent})
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${entry} ${folder}/${entry} SYMBOLIC)
    endforeach()
    set(${result} ${folder} PARENT_SCOPE)
endfunction()

# The files of a folder of src/ that match a pattern; a new file appears with the next build.
function(chamvi_layer_files folder pattern result)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/${pattern})
    set(${result} ${files} PARENT_SCOPE)
endfunction()

# The libraries of the other layers that a layer may include, in the order of linking.
function(chamvi_layer_needs layer result)
    set(libraries)
    foreach(entry IN LISTS CHAMVI_MAY_INCLUDE_${layer})
        string(REGEX REPLACE "/.*" "" other ${entry})
        if(NOT other STREQUAL layer)
            list(PREPEND libraries chamvi_${other})
        endif()
    endforeach()
    set(${result} ${libraries} PARENT_SCOPE)
endfunction()

# For tests, any allocation of a layer can be made to fail. All link this, as what comes last.
if(CHAMVI_SANITIZE OR CHAMVI_FUZZ OR CHAMVI_COVERAGE)
    add_library(chamvi_torture STATIC ${PROJECT_SOURCE_DIR}/spec/torture/torture.c)
    target_include_directories(chamvi_torture PUBLIC ${PROJECT_SOURCE_DIR}/spec/torture)
endif()

function(chamvi_layer_library layer)
    chamvi_layer_files(${layer} "*.c" sources)
    chamvi_layer_folder(${layer} folder)
    chamvi_layer_needs(${layer} needs)
    add_library(chamvi_${layer} STATIC ${sources})
    target_include_directories(chamvi_${layer} PRIVATE ${folder})
    target_link_libraries(chamvi_${layer} PUBLIC ${needs})
    if(TARGET chamvi_torture)
        target_compile_options(chamvi_${layer} PRIVATE
            -include ${PROJECT_SOURCE_DIR}/spec/torture/rename.h)
        target_link_libraries(chamvi_${layer} PUBLIC chamvi_torture)
    endif()
endfunction()

# The supervisor has a libc of its own and src/lua is built per Lua: not among the libraries.
set(CHAMVI_LIBRARIES)
foreach(layer IN LISTS CHAMVI_LAYERS)
    if(NOT layer MATCHES "^(supervisor|lua)$")
        chamvi_layer_library(${layer})
        list(PREPEND CHAMVI_LIBRARIES chamvi_${layer})
    endif()
endforeach()

find_package(PkgConfig REQUIRED)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
target_link_libraries(chamvi_codec PUBLIC PkgConfig::CJSON m)

# 7.88: CURLOPT_QUICK_EXIT, CURLOPT_PROTOCOLS_STR, and no SIGPIPE from a TLS connection.
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.88)
target_link_libraries(chamvi_net PUBLIC PkgConfig::CURL)

# Frames of WebSockets; the digest of their handshake by libcurl's own OpenSSL.
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
find_path(WSLAY_INCLUDE_DIR wslay/wslay.h REQUIRED)
find_library(WSLAY_LIBRARY wslay REQUIRED)
target_include_directories(chamvi_proto SYSTEM PRIVATE ${WSLAY_INCLUDE_DIR})
target_link_libraries(chamvi_proto PUBLIC PkgConfig::CRYPTO ${WSLAY_LIBRARY})

# The helper thread of a bell.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
target_link_libraries(chamvi_bell PUBLIC Threads::Threads)

pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
target_link_libraries(chamvi_codec PUBLIC PkgConfig::YAML)
